import { timingSafeEqual } from 'node:crypto';
import { ALL_NAMESPACES } from '../records/permissions.ts';
import type { DigestSource } from './access.ts';
import type { Identity } from './identity.ts';
import { digestOf } from './token-text.ts';
import type { Validity } from './validity.ts';

/** All of a role are valid together, so that a new one can be handed out before the old one goes. */
export interface Tokens {
  readonly admin: readonly string[];
  readonly node: readonly string[];
}

interface Known {
  readonly digest: Buffer;
  readonly identity: Identity;
}

/** The tokens of the files next to a registry's data. */
export class FileTokens implements DigestSource {
  readonly #validity: Validity;
  #known: readonly Known[] = [];

  constructor(tokens: Tokens, validity: Validity) {
    this.#validity = validity;
    this.replace(tokens);
  }

  /** Digests have one length, and all are compared whatever the first one says: the time taken tells nothing. */
  identify(token: string): Identity | null {
    return this.identifyDigest(digestOf(token));
  }

  identifyDigest(given: Buffer): Identity | null {
    return this.#known.reduce<Identity | null>(
      (found, { digest, identity }) => (timingSafeEqual(given, digest) ? identity : found),
      null,
    );
  }

  /** From now on these are the valid ones, also for what was granted before. */
  replace(tokens: Tokens): void {
    const before = this.#known;
    const known = (token: string, role: 'admin' | 'node'): Known => {
      const digest = digestOf(token);
      const same = before.find((other) => other.identity.roles[0] === role && timingSafeEqual(other.digest, digest));
      return same ?? { digest, identity: bootstrapIdentity(role) };
    };
    this.#known = [
      ...tokens.admin.map((token) => known(token, 'admin')),
      ...tokens.node.map((token) => known(token, 'node')),
    ];
    for (const gone of before) if (!this.#known.includes(gone)) this.#validity.end(gone.identity);
  }
}

function bootstrapIdentity(role: 'admin' | 'node'): Identity {
  return {
    name: `bootstrap-${role}`,
    roles: [role],
    namespace: ALL_NAMESPACES,
    mayReadJournals: role === 'admin',
    expiresAtMs: null,
  };
}
