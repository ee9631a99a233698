import type { Identity } from '../records/permissions.ts';
import { ALL_NAMESPACES } from '../records/permissions.ts';

/** The credentials of a request. */
export interface CallerCredentials {
  readonly authorization?: string | undefined;
  /** From the session cookie; ignored if the request has an `Authorization` header. */
  readonly session?: { readonly text: string; readonly isGuarded: boolean } | null;
}

/**
 * Why a request is not authenticated. `missing`: no credential. `unknown`: no valid credential. `unguarded`: a request
 * by cookie that another page could have sent. `unavailable`: the issuer that could verify the token does not respond.
 */
export type AuthFailure = 'missing' | 'unknown' | 'expired' | 'unguarded' | 'unavailable';

export interface Access {
  /** Never rejects. */
  identify(credentials: CallerCredentials): Promise<Identity | AuthFailure>;
  /** By the sha256 of a token of this registry; does not find OIDC tokens and sessions. */
  identifyDigest(sha256: Buffer): Identity | AuthFailure;
  /** Calls `ended` once when the identity expires or is revoked. The returned function unsubscribes. */
  whileValid(identity: Identity, ended: () => void): () => void;
}

/** Identifies callers by one kind of token. */
export interface TokenSource {
  /** Null: the token is of another kind. */
  identify(token: string): Identity | AuthFailure | null | Promise<Identity | AuthFailure | null>;
}

/** A source that stores digests of its tokens. */
export interface DigestSource extends TokenSource {
  identifyDigest(sha256: Buffer): Identity | AuthFailure | null;
}

/** The session cookie. Browsers accept its prefix only over TLS, and send it only to this host. */
export const SESSION_COOKIE = '__Host-spear-session';
/** CSRF protection: no form, image or link can send this header, and other origins need a CORS preflight. */
export const SESSION_HEADER = 'x-spear-session';

/** The session in a `Cookie` header; null: none. */
export function sessionOfCookie(header: string | undefined): string | null {
  for (const part of (header ?? '').split(';')) {
    const [name, value = ''] = part.trim().split('=', 2);
    if (name === SESSION_COOKIE) return value;
  }
  return null;
}

const bearer = /^bearer +([^\s]+) *$/i;

/** Authenticates a request by the first token source that knows its token. */
export class TokenAccess implements Access {
  readonly #sources: readonly TokenSource[];
  readonly #byDigest: readonly DigestSource[];
  readonly #sessions: TokenSource;
  readonly #validity: Validity;

  /** `sessions`: the only source for cookies. */
  constructor(own: readonly DigestSource[], others: readonly TokenSource[], sessions: TokenSource, validity: Validity) {
    this.#byDigest = own;
    this.#sources = [...own, ...others, sessions];
    this.#sessions = sessions;
    this.#validity = validity;
  }

  async identify({ authorization, session }: CallerCredentials): Promise<Identity | AuthFailure> {
    if (authorization === undefined && session != null) {
      return session.isGuarded ? ((await this.#sessions.identify(session.text)) ?? 'unknown') : 'unguarded';
    }
    const token = bearer.exec(authorization ?? '')?.[1];
    if (token === undefined) return 'missing';
    for (const source of this.#sources) {
      const found = await source.identify(token);
      if (found !== null) return found;
    }
    return 'unknown';
  }

  identifyDigest(sha256: Buffer): Identity | AuthFailure {
    for (const source of this.#byDigest) {
      const found = source.identifyDigest(sha256);
      if (found !== null) return found;
    }
    return 'unknown';
  }

  whileValid(identity: Identity, ended: () => void): () => void {
    return this.#validity.whileValid(identity, ended);
  }
}

const anonymousAdmin: Identity = {
  name: 'anybody',
  roles: ['admin'],
  namespace: ALL_NAMESPACES,
  mayReadJournals: true,
  expiresAtMs: null,
};

/** Authentication is off: every request is allowed. For loopback, on explicit demand. */
export const openAccess: Access = {
  identify: async () => anonymousAdmin,
  // A caller that can reach a node need not be able to reach this registry.
  identifyDigest: () => 'unknown',
  whileValid: () => () => {},
};

export const authFailureAdvice: Readonly<Record<AuthFailure, string>> = {
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

/** Maximum delay of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Notifies subscribers when an identity expires or is revoked. */
export class Validity {
  readonly #subscribers = new Map<Identity, Set<() => void>>();

  whileValid(identity: Identity, ended: () => void): () => void {
    const callbacks = this.#subscribers.get(identity) ?? new Set();
    this.#subscribers.set(identity, callbacks);
    let timer: NodeJS.Timeout | undefined;
    const unsubscribe = () => {
      clearTimeout(timer);
      callbacks.delete(end);
      if (callbacks.size === 0 && this.#subscribers.get(identity) === callbacks) this.#subscribers.delete(identity);
    };
    const end = () => {
      unsubscribe();
      ended();
    };
    const { expiresAtMs } = identity;
    const wait = (atMs: number) => {
      const leftMs = atMs - Date.now();
      timer = setTimeout(() => (atMs <= Date.now() ? end() : wait(atMs)), Math.min(Math.max(leftMs, 0), MAX_TIMER_MS));
      timer.unref();
    };
    callbacks.add(end);
    if (expiresAtMs !== null) wait(expiresAtMs);
    return unsubscribe;
  }

  end(identity: Identity): void {
    for (const end of [...(this.#subscribers.get(identity) ?? [])]) end();
  }
}
