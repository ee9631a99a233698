import { randomBytes } from 'node:crypto';
import type { Identity } from '../records/permissions.ts';
import type { AuthFailure, TokenSource, Validity } from './access.ts';
import { digestOf } from './token-text.ts';

/** Differs from the prefix of tokens: sessions belong to browsers and end with the registry. */
const SESSION_PREFIX = 'sps_';
const SESSION_BYTES = 32;
/** Above the limit the oldest session ends. */
const MAX_SESSIONS = 10_000;

/** Sessions of logged-in users, by the digest of the session token. In memory only. */
export class Sessions implements TokenSource {
  readonly #validity: Validity;
  readonly #open = new Map<string, Identity>();

  constructor(validity: Validity) {
    this.#validity = validity;
  }

  /** Returns the token of a new session. */
  begin(identity: Identity): string {
    const oldest = this.#open.keys().next().value;
    if (this.#open.size >= MAX_SESSIONS && oldest !== undefined) this.#end(oldest);
    const text = SESSION_PREFIX + randomBytes(SESSION_BYTES).toString('hex');
    this.#open.set(keyOf(text), identity);
    return text;
  }

  identify(text: string): Identity | AuthFailure | null {
    if (!text.startsWith(SESSION_PREFIX)) return null;
    const key = keyOf(text);
    const identity = this.#open.get(key);
    if (identity === undefined) return null;
    if (identity.expiresAtMs === null || identity.expiresAtMs > Date.now()) return identity;
    this.#end(key);
    return 'expired';
  }

  /** False: there was no such session. */
  end(text: string): boolean {
    return this.#end(keyOf(text));
  }

  #end(key: string): boolean {
    const identity = this.#open.get(key);
    this.#open.delete(key);
    if (identity !== undefined) this.#validity.end(identity);
    return identity !== undefined;
  }
}

function keyOf(text: string): string {
  return digestOf(text).toString('hex');
}
