import type { JsonObject } from '../../../base/json.ts';
import type { OidcConfig } from '../../../config/registry/oidc.ts';
import type { AuthFailure, TokenSource } from '../access.ts';
import type { Identity } from '../identity.ts';
import { digestOf } from '../token-text.ts';
import { checkTimes, identityOfClaims, isFor } from './claims.ts';
import { type Issuer, IssuerUnavailable } from './issuer.ts';
import { isSignedBy, looksSigned, type PublishedKey, readSignedToken, type SignedToken } from './signed-token.ts';

/** Tokens whose signature was checked lately: to check one costs more than the rest of a request. */
const MAX_CHECKED = 1_000;
const CHECKED_FOR_MS = 60_000;

interface Checked {
  readonly identity: Identity;
  readonly untilMs: number;
}

/** Tokens that an issuer signed. */
export class OidcTokens implements TokenSource {
  readonly #config: OidcConfig;
  readonly #issuer: Issuer;
  readonly #checked = new Map<string, Checked>();

  constructor(config: OidcConfig, issuer: Issuer) {
    this.#config = config;
    this.#issuer = issuer;
  }

  async identify(token: string): Promise<Identity | AuthFailure | null> {
    if (!looksSigned(token)) return null;
    const digest = digestOf(token).toString('base64');
    const known = this.#checked.get(digest);
    if (known !== undefined && known.untilMs > Date.now()) return known.identity;
    this.#checked.delete(digest);
    const claims = await this.claimsOf(token, this.#config.audiences);
    if (typeof claims === 'string') return claims;
    const identity = identityOfClaims(claims, this.#config);
    if (identity === null) return 'unknown';
    const untilMs = Math.min(Date.now() + CHECKED_FOR_MS, identity.expiresAtMs ?? 0);
    if (this.#checked.size >= MAX_CHECKED) this.#checked.delete(this.#checked.keys().next().value ?? '');
    this.#checked.set(digest, { identity, untilMs });
    return identity;
  }

  /** What a token says, if it is one of the issuer's, for one of these, and its time is now. */
  async claimsOf(text: string, audiences: readonly string[]): Promise<JsonObject | AuthFailure> {
    const token = readSignedToken(text);
    // Before anything is asked of anybody: who issued it is the cheapest to see.
    if (token === null || token.claims.iss !== this.#config.issuer) return 'unknown';
    try {
      return goodClaims(token, await this.#issuer.keysFor(token), audiences);
    } catch (error) {
      return error instanceof IssuerUnavailable ? 'unavailable' : 'unknown';
    }
  }
}

/** What a token says that one of these keys signed, for one of these, if its time is now. */
export function goodClaims(
  token: SignedToken,
  keys: readonly PublishedKey[],
  audiences: readonly string[],
): JsonObject | 'unknown' | 'expired' {
  if (!keys.some((key) => isSignedBy(token, key)) || !isFor(token.claims, audiences)) return 'unknown';
  const refusal = checkTimes(token.claims, Date.now());
  if (refusal !== null) return refusal === 'expired' ? 'expired' : 'unknown';
  return token.claims;
}
