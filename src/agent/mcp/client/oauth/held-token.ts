import type { OAuthTokens } from '@modelcontextprotocol/client';
import { isHeaderValue } from '../../../../base/http-header.ts';
import { knownSecrets } from '../../../../server/secrets/redactor.ts';
import { OAuthRefused } from './oauth-failure.ts';

/** A token as it is sent. */
export interface HeldToken {
  readonly header: string;
  /** As granted, else as asked for. */
  readonly scope: string | null;
  /** Null: nobody said. */
  readonly expiresAtMs: number | null;
  /** From then on another one is got. */
  readonly renewAtMs: number | null;
}

/** So long before its end a token is renewed, or when a part of its life is left: clocks differ, and requests take a while. */
const RENEW_BEFORE_MS = 30_000;
const RENEW_BEFORE_PART = 0.2;

export function heldToken(tokens: OAuthTokens, asked: string | null, nowMs: number): HeldToken {
  const { access_token, token_type, scope, expires_in } = tokens;
  if (token_type.toLowerCase() !== 'bearer') {
    throw new OAuthRefused(`the token has type ${JSON.stringify(token_type)}; only bearer tokens are supported`);
  }
  const header = `Bearer ${access_token}`;
  if (!isHeaderValue(header)) throw new OAuthRefused('the token has characters that an HTTP header cannot carry');
  knownSecrets.addOfRecord(access_token);
  const held = { header, scope: scope ?? asked };
  if (expires_in === undefined) return { ...held, expiresAtMs: null, renewAtMs: null };
  const lifeMs = expires_in * 1_000;
  const expiresAtMs = nowMs + lifeMs;
  return { ...held, expiresAtMs, renewAtMs: expiresAtMs - Math.min(RENEW_BEFORE_MS, lifeMs * RENEW_BEFORE_PART) };
}

/** Whether it is time to get another one. */
export function isDue({ renewAtMs }: HeldToken, nowMs: number): boolean {
  return renewAtMs !== null && nowMs >= renewAtMs;
}

export function isExpired({ expiresAtMs }: HeldToken, nowMs: number): boolean {
  return expiresAtMs !== null && nowMs >= expiresAtMs;
}
