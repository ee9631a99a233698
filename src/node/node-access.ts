import { createHash, timingSafeEqual } from 'node:crypto';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { errorText } from '../base/errors.ts';
import type { Submitter } from '../config/node/node-config.ts';
import type { IdentityPort } from '../registry-client/ports.ts';
import { DEFAULT_NAMESPACE } from '../runtime/port/policy-layers.ts';
import { PeerRates } from '../server/http/peer-gate.ts';
import { ensureToken, readTokenFile } from '../server/identity/file-tokens.ts';
import { identityOfToken } from '../server/identity/oidc/oidc-tokens.ts';
import { looksSigned, readSignedToken } from '../server/identity/oidc/signed-token.ts';
import { tokenForm } from '../server/identity/token-text.ts';
import { ALL_NAMESPACES, type Identity, type Role } from '../server/records/permissions.ts';

/** `unknown`: no token, or one that no user has. Otherwise why a token of the registry cannot be looked up. */
export type NodeStranger = 'unknown' | NoIdentity;

interface TokenFile {
  readonly identity: Identity;
  readonly file: string;
  digests: readonly Buffer[];
}

const bearer = /^bearer +([^\s]+) *$/i;

/**
 * Identifies callers of a node, by a token of the node or, with a registry, of a user of the registry. Tokens of the node
 * are in files that only their owner can read, created at the first start; each line is a valid token. With a registry the
 * node has the admin token only.
 */
export class NodeAccess {
  readonly #known: readonly TokenFile[];
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

  /** Reloads the files. @throws if one is invalid; then nothing changes */
  reload(): void {
    const read = this.#known.map(({ file }) => readTokenFile(file).map(digest));
    for (const [index, known] of this.#known.entries()) known.digests = read[index] ?? [];
  }

  /** `peer`: address of the caller. Never rejects. */
  async identify(authorization: string | undefined, peer: string): Promise<Identity | NodeStranger> {
    const token = bearer.exec(authorization ?? '')?.[1];
    if (token === undefined) return 'unknown';
    const given = digest(token);
    // All tokens are compared, so that the time taken reveals nothing.
    const matches = this.#known.filter(({ digests }) =>
      digests.reduce((found, known) => timingSafeEqual(given, known) || found, false),
    );
    const [match] = matches;
    if (match !== undefined) return match.identity;
    return (await this.#registry?.identify(given.toString('hex'), token, peer)) ?? 'unknown';
  }

  /**
   * Calls `ended` once when the token was revoked or its identity changed. An unreachable registry does not end running
   * requests. Returns a function that stops the check.
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

/** Cache time of a valid token, and thus the maximum delay of a revocation. */
export const IDENTITY_CACHE_MS = 5_000;
/** Short, because the token may be created in the meantime. */
const UNKNOWN_CACHE_MS = 1_000;
const ANSWER_MS = 3_000;
const MAX_KNOWN = 10_000;
/** How long a caller that was valid retains a reserved slot for its next lookup. */
const RECENTLY_MS = 10 * 60_000;
/** Lookups in flight: of tokens that were not valid recently, and of those that were. */
const MAX_ASKING = 64;
const MAX_ASKING_RECENT = 512;
/** Lookups of tokens of one form that were not valid recently, for each peer. */
export const LOOKUPS_PER_PEER_PER_SECOND = 32;

/** `unavailable`: the registry does not answer. `too_many`: the peer sent too many unknown tokens, or all peers did. */
export type NoIdentity = 'unavailable' | 'too_many';

interface Answer {
  readonly identity: Identity | null;
  readonly until: number;
}

/**
 * Identifies callers of a node: by the digest of a token, looked up in the registry, or by a JWT of the registry's issuer,
 * verified with keys and rules from the registry. No token leaves the node. Answers are cached for a few seconds; if the
 * registry is unreachable for longer, its users are rejected. A malformed token costs no lookup. Tokens that were not
 * valid recently have a lookup budget per peer, one for each form, so that random texts do not exhaust the budget of
 * issued tokens.
 */
export class RegistryIdentities {
  readonly #port: IdentityPort;
  readonly #onFailure: (why: string) => void;
  /** Separate maps, so that guessed tokens do not evict valid ones. Oldest answers come first. */
  readonly #known = new Map<string, Answer>();
  readonly #unknown = new Map<string, Answer>();
  readonly #asking = new Map<string, Promise<Identity | null | 'unavailable'>>();
  readonly #lookups = new PeerRates(LOOKUPS_PER_PEER_PER_SECOND);
  #askingRecent = 0;
  #failed = false;

  constructor(port: IdentityPort, onFailure: (why: string) => void) {
    this.#port = port;
    this.#onFailure = onFailure;
  }

  /** `sha256`: of the token, in hex. Never rejects. */
  async identify(sha256: string, token: string, peer: string): Promise<Identity | null | NoIdentity> {
    const known = this.#known.get(sha256);
    const kept = known ?? this.#unknown.get(sha256);
    if (kept !== undefined && kept.until > performance.now()) return current(kept.identity);
    const answer = await (this.#asking.get(sha256) ?? this.#begin(sha256, token, peer, known !== undefined));
    return typeof answer === 'string' ? answer : current(answer);
  }

  #begin(
    sha256: string,
    token: string,
    peer: string,
    isRecent: boolean,
  ): Promise<Identity | null | NoIdentity> | NoIdentity | null {
    if (isRecent) {
      if (this.#askingRecent >= MAX_ASKING_RECENT) return 'too_many';
      this.#askingRecent += 1;
      return this.#ask(sha256, token).finally(() => {
        this.#askingRecent -= 1;
      });
    }
    const form = looksSigned(token) ? 'signed' : tokenForm(token);
    if (form === 'malformed' || (form === 'signed' && readSignedToken(token) === null)) return null;
    if (this.#asking.size - this.#askingRecent >= MAX_ASKING) return 'too_many';
    return this.#lookups.spend(`${form} ${peer}`) ? this.#ask(sha256, token) : 'too_many';
  }

  #ask(sha256: string, token: string): Promise<Identity | null | 'unavailable'> {
    const asking = this.#identify(sha256, token, AbortSignal.timeout(ANSWER_MS)).then(
      (identity) => {
        this.#keep(sha256, identity);
        this.#failed = false;
        return identity;
      },
      (error: unknown) => {
        if (!this.#failed) this.#onFailure(errorText(error));
        this.#failed = true;
        return 'unavailable' as const;
      },
    );
    this.#asking.set(sha256, asking);
    void asking.finally(() => this.#asking.delete(sha256));
    return asking;
  }

  async #identify(sha256: string, token: string, signal: AbortSignal): Promise<Identity | null> {
    if (!looksSigned(token)) return this.#port.identify(sha256, signal);
    const signed = readSignedToken(token);
    if (signed === null) return null;
    const { alg, kid } = signed;
    const issuer = await this.#port.issuer({ alg, kid }, signal);
    return issuer === null ? null : identityOfToken(signed, issuer);
  }

  #keep(sha256: string, identity: Identity | null): void {
    this.#known.delete(sha256);
    this.#unknown.delete(sha256);
    const answers = identity === null ? this.#unknown : this.#known;
    const now = performance.now();
    const retainedMs = identity === null ? 0 : RECENTLY_MS;
    for (const [oldest, { until }] of answers) {
      if (until + retainedMs > now && answers.size < MAX_KNOWN) break;
      answers.delete(oldest);
    }
    answers.set(sha256, { identity, until: now + (identity === null ? UNKNOWN_CACHE_MS : IDENTITY_CACHE_MS) });
  }
}

function current(identity: Identity | null): Identity | null {
  return identity?.expiresAtMs != null && identity.expiresAtMs <= Date.now() ? null : identity;
}
