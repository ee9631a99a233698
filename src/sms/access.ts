import { createHash, timingSafeEqual } from 'node:crypto';

/** `node`: may list, watch and report. `admin`: may do everything. */
export type Role = 'admin' | 'node';

/** `missing`: no token came. `unknown`: not one of ours. `not_admin`: the node's token where the admin's is needed. */
export type AccessDecision = 'granted' | 'missing' | 'unknown' | 'not_admin';

export interface Access {
  decide(authorization: string | undefined, needs: Role): AccessDecision;
}

export interface Tokens {
  readonly admin: string;
  readonly node: string;
}

const bearer = /^bearer +([^\s]+) *$/i;

export function tokenAccess(tokens: Tokens): Access {
  const admin = digest(tokens.admin);
  const node = digest(tokens.node);
  return {
    decide(authorization, needs) {
      const token = bearer.exec(authorization ?? '')?.[1];
      if (token === undefined) return 'missing';
      // Digests have one length, and both are compared whatever the first one says: the time taken tells nothing.
      const given = digest(token);
      const isAdmin = timingSafeEqual(given, admin);
      const isNode = timingSafeEqual(given, node);
      if (isAdmin) return 'granted';
      if (!isNode) return 'unknown';
      return needs === 'node' ? 'granted' : 'not_admin';
    },
  };
}

/** Everybody who can reach the server is let in: for loopback, on explicit demand. */
export const openAccess: Access = { decide: () => 'granted' };

export const accessAdvice: Readonly<Record<Exclude<AccessDecision, 'granted'>, string>> = {
  missing:
    'a token is needed: send "Authorization: Bearer TOKEN" with the content of the admin.token or node.token file',
  unknown: 'the token is not one of this registry; see the admin.token and node.token files next to its data',
  not_admin: 'this needs the admin token (the admin.token file); the node token may only list, watch and report',
};

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
