import { createHash, timingSafeEqual } from 'node:crypto';

/** `node`: may list, watch and report. `admin`: may do everything. */
export type Role = 'admin' | 'node';

/** `missing`: no token came. `unknown`: not one of ours. `not_admin`: the node's token where the admin's is needed. */
export type AccessDecision = 'granted' | 'missing' | 'unknown' | 'not_admin';

export interface Access {
  decide(authorization: string | undefined, needs: Role): AccessDecision;
  /** Calls back once when what was granted no longer is. The returned function ends that. */
  whileGranted(authorization: string | undefined, needs: Role, revoked: () => void): () => void;
}

/** All of a role are valid together, so that a new one can be handed out before the old one goes. */
export interface Tokens {
  readonly admin: readonly string[];
  readonly node: readonly string[];
}

const bearer = /^bearer +([^\s]+) *$/i;

interface Grant {
  readonly authorization: string | undefined;
  readonly needs: Role;
  readonly revoked: () => void;
}

export class TokenAccess implements Access {
  #admin: readonly Buffer[] = [];
  #node: readonly Buffer[] = [];
  readonly #grants = new Set<Grant>();

  constructor(tokens: Tokens) {
    this.replace(tokens);
  }

  decide(authorization: string | undefined, needs: Role): AccessDecision {
    const token = bearer.exec(authorization ?? '')?.[1];
    if (token === undefined) return 'missing';
    // Digests have one length, and all are compared whatever the first one says: the time taken tells nothing.
    const given = digest(token);
    const isAdmin = isOneOf(this.#admin, given);
    const isNode = isOneOf(this.#node, given);
    if (isAdmin) return 'granted';
    if (!isNode) return 'unknown';
    return needs === 'node' ? 'granted' : 'not_admin';
  }

  whileGranted(authorization: string | undefined, needs: Role, revoked: () => void): () => void {
    const grant = { authorization, needs, revoked };
    this.#grants.add(grant);
    return () => this.#grants.delete(grant);
  }

  /** From now on these are the valid ones, also for what was granted before. */
  replace(tokens: Tokens): void {
    this.#admin = tokens.admin.map(digest);
    this.#node = tokens.node.map(digest);
    for (const grant of [...this.#grants]) {
      if (this.decide(grant.authorization, grant.needs) === 'granted') continue;
      this.#grants.delete(grant);
      grant.revoked();
    }
  }
}

/** Everybody who can reach the server is let in: for loopback, on explicit demand. */
export const openAccess: Access = { decide: () => 'granted', whileGranted: () => () => {} };

export const accessAdvice: Readonly<Record<Exclude<AccessDecision, 'granted'>, string>> = {
  missing:
    'a token is needed: send "Authorization: Bearer TOKEN" with the content of the admin.token or node.token file',
  unknown: 'the token is not one of this registry; see the admin.token and node.token files next to its data',
  not_admin: 'this needs the admin token (the admin.token file); the node token may only list, watch and report',
};

function isOneOf(digests: readonly Buffer[], given: Buffer): boolean {
  return digests.reduce((found, known) => timingSafeEqual(given, known) || found, false);
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
