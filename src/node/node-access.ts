import { createHash, timingSafeEqual } from 'node:crypto';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Submitter } from '../config/host/node.ts';
import { DEFAULT_NAMESPACE } from '../runtime/port/policy-layers.ts';
import { ensureToken, readTokenFile } from '../server/identity/token-files.ts';
import { ALL_NAMESPACES, type Identity, type Role } from '../server/records/permissions.ts';
import { IDENTITY_CACHE_MS, type NoIdentity, type RegistryIdentities } from './registry-identities.ts';

/** `unknown`: no token, or one that no user has. Otherwise why a token of the registry cannot be looked up. */
export type NodeStranger = 'unknown' | NoIdentity;

interface Known {
  readonly identity: Identity;
  readonly file: string;
  digests: readonly Buffer[];
}

const bearer = /^bearer +([^\s]+) *$/i;

/**
 * Who may call a node: whoever has a token of its own, and, where it has a registry, the people of that. Its own tokens
 * are files for their owner alone, made at the first start; a line each, all of them valid. With a registry there is the
 * admin's alone.
 */
export class NodeAccess {
  readonly #known: readonly Known[];
  readonly #registry: RegistryIdentities | null;
  readonly created: readonly string[];

  constructor(directory: string, submitters: readonly Submitter[], registry: RegistryIdentities | null) {
    this.#registry = registry;
    const admin = own(registry === null ? 'admin' : 'local:admin', 'admin', ALL_NAMESPACES);
    const all = [
      { identity: admin, file: join(directory, 'admin.token') },
      ...(registry === null ? submitterFiles(directory, submitters) : []),
    ];
    const created: string[] = [];
    for (const { file } of all) ensureToken(file, created);
    this.created = created;
    this.#known = all.map((known) => ({ ...known, digests: [] }));
    this.reload();
  }

  /** Reads the files again. @throws if one cannot be used; then all stays as it was */
  reload(): void {
    const read = this.#known.map(({ file }) => readTokenFile(file).map(digest));
    for (const [index, known] of this.#known.entries()) known.digests = read[index] ?? [];
  }

  /** `peer`: the address that the token came from. Never rejects. */
  async identify(authorization: string | undefined, peer: string): Promise<Identity | NodeStranger> {
    const token = bearer.exec(authorization ?? '')?.[1];
    if (token === undefined) return 'unknown';
    const given = digest(token);
    // All are compared, whatever the first one says: the time taken tells nothing.
    const matches = this.#known.filter(({ digests }) =>
      digests.reduce((found, known) => timingSafeEqual(given, known) || found, false),
    );
    const [match] = matches;
    if (match !== undefined) return match.identity;
    return (await this.#registry?.identify(given.toString('hex'), token, peer)) ?? 'unknown';
  }

  /**
   * Calls back once when the token is no longer what it was. A registry that does not answer ends nothing that was begun.
   * The returned function ends the looking.
   */
  whileValid(authorization: string | undefined, peer: string, identity: Identity, ended: () => void): () => void {
    const look = async () => {
      const now = await this.identify(authorization, peer);
      if (now === 'unavailable' || now === 'too_many' || isDeepStrictEqual(now, identity)) return;
      clearInterval(timer);
      ended();
    };
    const timer = setInterval(() => void look(), IDENTITY_CACHE_MS);
    timer.unref();
    return () => clearInterval(timer);
  }
}

function submitterFiles(directory: string, submitters: readonly Submitter[]) {
  return [
    { identity: own('submitter', 'submitter', DEFAULT_NAMESPACE), file: join(directory, 'submitter.token') },
    ...submitters.map(({ name, namespace, tokenFile }) => ({
      identity: own(name, 'submitter', namespace),
      file: tokenFile ?? join(directory, 'tokens', `${name}.token`),
    })),
  ];
}

function own(name: string, role: Role, namespace: string): Identity {
  return { name, roles: [role], namespace, mayReadJournals: role === 'admin', expiresAtMs: null };
}

const digest = (text: string) => createHash('sha256').update(text).digest();
