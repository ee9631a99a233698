import { ALL_NAMESPACES } from '../records/permissions.ts';
import type { Identity } from './identity.ts';
import { SESSION_HEADER } from './session-names.ts';
import type { Validity } from './validity.ts';

/** What a request shows of who sent it. */
export interface Shown {
  readonly authorization?: string | undefined;
  /** Of a browser's cookie; it counts where there is no authorization. */
  readonly session?: { readonly text: string; readonly isGuarded: boolean } | null;
}

/**
 * `missing`: nothing was shown. `unknown`: it is not one of ours. `expired`: its time is over. `unguarded`: a change by
 * a cookie that another page could have sent. `unavailable`: whoever could tell cannot be asked.
 */
export type Stranger = 'missing' | 'unknown' | 'expired' | 'unguarded' | 'unavailable';

export interface Access {
  /** Never rejects. */
  identify(shown: Shown): Promise<Identity | Stranger>;
  /** By the sha256 of a token of this registry. Nobody is known so whom an issuer knows, or a session. */
  identifyDigest(sha256: Buffer): Identity | Stranger;
  /** Calls back once when the identity no longer holds. The returned function ends that. */
  whileValid(identity: Identity, ended: () => void): () => void;
}

/** One way of knowing somebody by the token that they show. */
export interface TokenSource {
  /** Null: the token is not one of its own. */
  identify(token: string): Identity | Stranger | null | Promise<Identity | Stranger | null>;
}

/** One that knows its tokens by their digests. */
export interface DigestSource extends TokenSource {
  identifyDigest(sha256: Buffer): Identity | Stranger | null;
}

const bearer = /^bearer +([^\s]+) *$/i;

/** Everybody whom one of the sources knows. */
export class PeopleAccess implements Access {
  readonly #sources: readonly TokenSource[];
  readonly #byDigest: readonly DigestSource[];
  readonly #sessions: TokenSource;
  readonly #validity: Validity;

  /** `sessions`: the only ones that a cookie may name. */
  constructor(own: readonly DigestSource[], others: readonly TokenSource[], sessions: TokenSource, validity: Validity) {
    this.#byDigest = own;
    this.#sources = [...own, ...others, sessions];
    this.#sessions = sessions;
    this.#validity = validity;
  }

  async identify({ authorization, session }: Shown): Promise<Identity | Stranger> {
    if (authorization === undefined && session != null) {
      return session.isGuarded ? ((await this.#sessions.identify(session.text)) ?? 'unknown') : 'unguarded';
    }
    const token = bearer.exec(authorization ?? '')?.[1];
    if (token === undefined) return 'missing';
    for (const source of this.#sources) {
      const who = await source.identify(token);
      if (who !== null) return who;
    }
    return 'unknown';
  }

  identifyDigest(sha256: Buffer): Identity | Stranger {
    for (const source of this.#byDigest) {
      const who = source.identifyDigest(sha256);
      if (who !== null) return who;
    }
    return 'unknown';
  }

  whileValid(identity: Identity, ended: () => void): () => void {
    return this.#validity.whileValid(identity, ended);
  }
}

const anybody: Identity = {
  name: 'anybody',
  roles: ['admin'],
  namespace: ALL_NAMESPACES,
  mayReadJournals: true,
  expiresAtMs: null,
};

/** Everybody who can reach the server is let in: for loopback, on explicit demand. */
export const openAccess: Access = {
  identify: async () => anybody,
  // Whoever can reach a node is not whoever can reach this registry.
  identifyDigest: () => 'unknown',
  whileValid: () => () => {},
};

export const strangerAdvice: Readonly<Record<Stranger, string>> = {
  missing:
    'a token is required: send "Authorization: Bearer TOKEN" with your token, or with the content of the ' +
    'admin.token or node.token file',
  unknown:
    'this registry does not know the token, or it was revoked; "spear tokens ls" lists named tokens, and the ' +
    'admin.token and node.token files in the data directory hold the others',
  expired: 'this token has expired; create a new one ("spear tokens rotate"), or log in again',
  unguarded: `a request that authenticates with a session cookie and changes something must have the header ${SESSION_HEADER}`,
  unavailable:
    'the keys of the issuer of this token cannot be loaded; see the log of the registry for the reason. Tokens of ' +
    'the registry still work',
};
