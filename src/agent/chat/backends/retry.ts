import { type Backoff, backoffMs, type RandomSource } from '../../../base/timing.ts';

export const backoff: Backoff = { firstMs: 500, maxMs: 8_000 };
/** A provider that asks for more patience than this is asked again after this long all the same. */
export const MAX_RETRY_AFTER_MS = 60_000;

const RETRIED_STATUSES = new Set([429, 502, 503, 504]);

const TRANSIENT_CONNECTION_ERRORS = new Set([
  'EAI_AGAIN',
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'EMFILE',
  'ENETDOWN',
  'ENETUNREACH',
  'ENFILE',
  'ENOMEM',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_PRX_CONN',
  'UND_ERR_SOCKET',
]);

/** The clock and the dice, passed in so that tests need not wait. */
export interface RetryTiming extends RandomSource {
  now(): number;
  /** Rejects as soon as the signal is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export function isRetriedStatus(status: number): boolean {
  return RETRIED_STATUSES.has(status);
}

/** A refused certificate or a proxy that says no will do so again; a refused connection may not. */
export function isTransientConnectionError(code: string | undefined): boolean {
  return code !== undefined && TRANSIENT_CONNECTION_ERRORS.has(code);
}

/**
 * How long to wait before try number `attempt + 1`: what the provider asked for, up to MAX_RETRY_AFTER_MS, and never
 * less than the backoff.
 */
export function retryDelayMs(attempt: number, retryAfterMs: number | undefined, dice: RandomSource): number {
  return Math.max(backoffMs(backoff, attempt + 1, dice), Math.min(retryAfterMs ?? 0, MAX_RETRY_AFTER_MS));
}

/** Retry-After in either form, seconds or an HTTP date; undefined when it says nothing usable. */
export function parseRetryAfter(header: string | undefined, now: number): number | undefined {
  const text = header?.trim();
  if (!text) return undefined;
  const wait = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return Number.isFinite(wait) ? Math.max(Math.round(wait), 0) : undefined;
}
