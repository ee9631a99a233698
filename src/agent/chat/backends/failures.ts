import { isJsonObject, type JsonValue, parseJson } from '../../../base/json.ts';
import { type Backoff, backoffMs, type RandomSource } from '../../../base/timing.ts';
import { knownSecrets, type Redact } from '../../../server/secrets/redactor.ts';
import { BackendError, type BackendErrorDetails } from '../backend.ts';

/** Maximum bytes of a provider's message that reach the guest. */
export const MAX_PROVIDER_MESSAGE_BYTES = 2048;
const MAX_SNIPPET_BYTES = 200;

const CODE_OF_STATUS = new Map([
  [400, 'invalid_request'],
  [401, 'unauthorized'],
  [403, 'forbidden'],
  [404, 'not_found'],
  [408, 'timeout'],
  [413, 'request_too_large'],
  [422, 'invalid_request'],
  [429, 'rate_limited'],
]);

/** Creates the errors of one backend; all name it, none contains its key. */
export class BackendFailures {
  readonly #name: string;
  readonly #redact: Redact;

  constructor(name: string, redact: Redact = knownSecrets.redact) {
    this.#name = name;
    this.#redact = redact;
  }

  /** The provider returned an error status. `retryAfterMs`: its Retry-After. */
  refused(status: number, providerMessage: string, retryAfterMs?: number): BackendError {
    const said = this.#clean(providerMessage, MAX_PROVIDER_MESSAGE_BYTES);
    const code = CODE_OF_STATUS.get(status) ?? 'provider_error';
    const retryable = status === 408 || status === 429 || status >= 500;
    const wait = retryAfterMs === undefined ? '' : ` (retry after ${Math.ceil(retryAfterMs / 1000)} s)`;
    const text = `responded with status ${status}${said && `: ${said}`}${wait}`;
    return this.#error(code, text, { retryable, status, retryAfterMs });
  }

  /** The provider sent an `error` object instead of a completion. */
  errorObject(error: JsonValue): BackendError {
    const status = isJsonObject(error) ? numericStatus(error.status ?? error.code) : undefined;
    const message = errorMessage({ error }) ?? '';
    if (status !== undefined) return this.refused(status, message);
    const said = this.#clean(message, MAX_PROVIDER_MESSAGE_BYTES);
    return this.#error('provider_error', `returned an error${said && `: ${said}`}`, { retryable: false });
  }

  badResponse(what: string, sample?: string): BackendError {
    const shown = sample === undefined ? '' : `: ${JSON.stringify(this.#clean(sample, MAX_SNIPPET_BYTES))}`;
    return this.#error('bad_response', `returned an invalid response: ${what}${shown}`, { retryable: false });
  }

  tooLarge(maxBytes: number): BackendError {
    return this.#error(
      'response_too_large',
      `returned a response of more than ${maxBytes} bytes (max_response_bytes)`,
      {
        retryable: false,
      },
    );
  }

  streamBroken(): BackendError {
    return this.#error('stream_broken', 'closed its stream before the response was complete', { retryable: true });
  }

  connectionLost(reason: string): BackendError {
    return this.#error('connection_failed', `lost the connection during its response (${reason})`, {
      retryable: true,
    });
  }

  unreachable(origin: string, reason: string, retryable: boolean): BackendError {
    return this.#error('connection_failed', `is unreachable at ${origin} (${reason})`, { retryable });
  }

  timeout(timeoutMs: number): BackendError {
    return this.#error('timeout', `did not complete its response within ${timeoutMs} ms (timeout_ms)`, {
      retryable: true,
    });
  }

  closed(): BackendError {
    return this.#error('backend_closed', 'is closed', { retryable: false });
  }

  misconfigured(problem: string): BackendError {
    return this.#error('backend_misconfigured', `cannot be used: ${problem}`, { retryable: false });
  }

  // No `cause`: errors of libraries may contain secrets, and a log would print them.
  #error(code: string, text: string, details: BackendErrorDetails): BackendError {
    return new BackendError(code, this.#redact(`backend "${this.#name}" ${text}`), details);
  }

  // Redact before cutting: a truncated key would not be found.
  #clean(text: string, maxBytes: number): string {
    return cutUtf8(this.#redact(text.trim()), maxBytes);
  }
}

/** Message in an OpenAI-compatible error body, else the text itself. */
export function providerMessage(text: string): string {
  const body = parseJson(text);
  return errorMessage(Array.isArray(body) ? body[0] : body) ?? text;
}

function errorMessage(body: JsonValue | undefined): string | undefined {
  if (!isJsonObject(body)) return undefined;
  const { error } = body;
  const candidates = [isJsonObject(error) ? error.message : error, body.message, body.detail];
  return candidates.find((candidate) => typeof candidate === 'string');
}

function numericStatus(value: JsonValue | undefined): number | undefined {
  const status = typeof value === 'string' ? Number.parseInt(value, 10) : value;
  return typeof status === 'number' && status >= 400 && status <= 599 ? status : undefined;
}

function cutUtf8(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  // In streaming mode the decoder keeps an unfinished character to itself, so the cut never splits one.
  return `${new TextDecoder().decode(bytes.subarray(0, maxBytes), { stream: true })}…`;
}

export const backoff: Backoff = { firstMs: 500, maxMs: 8_000 };
/** Maximum delay that a Retry-After header can cause. */
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

/** Clock and random source, injected for tests. */
export interface RetryTiming extends RandomSource {
  now(): number;
  /** Rejects as soon as the signal is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export function isRetriedStatus(status: number): boolean {
  return RETRIED_STATUSES.has(status);
}

/** Whether a connection error may be transient. Rejected certificates and proxy refusals are permanent. */
export function isTransientConnectionError(code: string | undefined): boolean {
  return code !== undefined && TRANSIENT_CONNECTION_ERRORS.has(code);
}

/**
 * Delay before attempt number `attempt + 1`: the provider's Retry-After up to MAX_RETRY_AFTER_MS, and at least the
 * backoff.
 */
export function retryDelayMs(attempt: number, retryAfterMs: number | undefined, random: RandomSource): number {
  return Math.max(backoffMs(backoff, attempt + 1, random), Math.min(retryAfterMs ?? 0, MAX_RETRY_AFTER_MS));
}

/** Parses Retry-After, seconds or an HTTP date; undefined: invalid. */
export function parseRetryAfter(header: string | undefined, now: number): number | undefined {
  const text = header?.trim();
  if (!text) return undefined;
  const wait = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return Number.isFinite(wait) ? Math.max(Math.round(wait), 0) : undefined;
}
