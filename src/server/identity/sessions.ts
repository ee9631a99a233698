import { randomBytes } from 'node:crypto';
import type { Stranger, TokenSource } from './access.ts';
import type { Identity } from './identity.ts';
import { digestOf } from './token-text.ts';
import type { Validity } from './validity.ts';

/** Other than a token's: a session is of a browser, and gone when the registry ends. */
const SESSION_PREFIX = 'sps_';
const SESSION_BYTES = 32;
/** At one time; the oldest gives way. */
const MAX_SESSIONS = 10_000;

/** People who logged in, by digests of what their browsers hold. In memory alone. */
export class Sessions implements TokenSource {
  readonly #validity: Validity;
  readonly #open = new Map<string, Identity>();

  constructor(validity: Validity) {
    this.#validity = validity;
  }

  /** The text that stands for it from now on. */
  begin(identity: Identity): string {
    const oldest = this.#open.keys().next().value;
    if (this.#open.size >= MAX_SESSIONS && oldest !== undefined) this.#end(oldest);
    const text = SESSION_PREFIX + randomBytes(SESSION_BYTES).toString('hex');
    this.#open.set(keyOf(text), identity);
    return text;
  }

  identify(text: string): Identity | Stranger | null {
    if (!text.startsWith(SESSION_PREFIX)) return null;
    const key = keyOf(text);
    const identity = this.#open.get(key);
    if (identity === undefined) return null;
    if (identity.expiresAtMs === null || identity.expiresAtMs > Date.now()) return identity;
    this.#end(key);
    return 'expired';
  }

  /** Whether there was one. */
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
