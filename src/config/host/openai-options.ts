import type { Waiting } from '../../base/listeners.ts';
import { isHeaderValue } from '../../base/text.ts';
import { Secret } from '../../server/secrets/secret.ts';
import { ConfigError } from '../config-error.ts';
import { backendUrlComplaint, headerNameComplaint, headerSecret } from '../http-settings.ts';
import { type BackendLimitName, backendLimitSpecs } from '../limits.ts';
import { type OptionKeys, refuseUnknownKeys } from '../option-keys.ts';
import { type CompiledOpenAiBackend, imageOptions, OPENAI_DEFAULT_BASE_URL } from './backends.ts';

/** Options of an OpenAI-compatible backend, given by a program. */
export interface OpenAiOptions {
  /** Name of the backend; guests see it as `_spear.backend`. @default 'openai' */
  readonly name?: string | undefined;
  /** Base URL, to which `/chat/completions` is appended. @default https://api.openai.com/v1 */
  readonly baseUrl?: string | undefined;
  /** API key. It is redacted from all output of the process. @default none */
  readonly apiKey?: string | undefined;
  /** Model of sessions that name none. @default none */
  readonly model?: string | undefined;
  /** Where the model accepts images of tool results. @default 'none' */
  readonly images?: CompiledOpenAiBackend['images'] | undefined;
  /** Additional headers of every request. @default none */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Notified when the backend waits for a response or a retry. @default none */
  readonly waiting?: Waiting | undefined;
  /** Deadline of one request, including retries. @default 600000 */
  readonly timeoutMs?: number | undefined;
  /** Timeout for opening a connection. @default 10000 */
  readonly connectTimeoutMs?: number | undefined;
  /** Retries on 429, 502, 503, 504 and connection errors. @default 3 */
  readonly maxRetries?: number | undefined;
  /** Maximum size of a response in bytes. @default 33554432 */
  readonly maxResponseBytes?: number | undefined;
}

const openAiOptionKeys: OptionKeys<OpenAiOptions> = {
  name: true,
  baseUrl: true,
  apiKey: true,
  model: true,
  images: true,
  headers: true,
  waiting: true,
  timeoutMs: true,
  connectTimeoutMs: true,
  maxRetries: true,
  maxResponseBytes: true,
};

/** @throws ConfigError naming the option that cannot be used */
export function compileOpenAiOptions(options: OpenAiOptions): CompiledOpenAiBackend {
  refuseUnknownKeys('openAiBackend', options, openAiOptionKeys);
  const { name = 'openai', baseUrl = OPENAI_DEFAULT_BASE_URL, apiKey, model, images = 'none', headers = {} } = options;
  const complaint = backendUrlComplaint(baseUrl);
  if (complaint !== undefined) throw wrong('baseUrl', complaint);
  if (apiKey === '') throw wrong('apiKey', 'is empty; omit it if no key is needed');
  if (apiKey !== undefined && !isHeaderValue(apiKey)) throw wrong('apiKey', UNFIT);
  if (!imageOptions.includes(images)) throw wrong('images', `expected one of ${imageOptions.join(', ')}`);
  return Object.freeze({
    kind: 'openai',
    name,
    baseUrl,
    model,
    images,
    apiKey: apiKey === undefined ? undefined : new Secret(apiKey),
    headers: compileHeaders(headers, apiKey !== undefined),
    timeoutMs: limit('timeoutMs', 'timeout_ms', options.timeoutMs),
    connectTimeoutMs: limit('connectTimeoutMs', 'connect_timeout_ms', options.connectTimeoutMs),
    maxRetries: limit('maxRetries', 'max_retries', options.maxRetries),
    maxResponseBytes: limit('maxResponseBytes', 'max_response_bytes', options.maxResponseBytes),
    problem: undefined,
  });
}

const UNFIT = 'contains characters that an HTTP header cannot carry';

function compileHeaders(given: Readonly<Record<string, string>>, hasKey: boolean): ReadonlyMap<string, Secret> {
  const headers = new Map<string, Secret>();
  for (const [header, value] of Object.entries(given)) {
    const field = `headers.${header}`;
    const lowerCase = header.toLowerCase();
    const complaint = headerNameComplaint(header);
    if (complaint !== undefined) throw wrong(field, complaint);
    if (!isHeaderValue(value)) throw wrong(field, UNFIT);
    if (headers.has(lowerCase)) throw wrong(field, 'the header is set twice');
    if (lowerCase === 'authorization' && hasKey)
      throw wrong(field, 'apiKey already sets this header; remove one of them');
    headers.set(lowerCase, headerSecret(header, value));
  }
  return headers;
}

function limit(option: string, name: BackendLimitName, value: number | undefined): number {
  const { min, max, default: fallback } = backendLimitSpecs[name];
  if (value === undefined) return fallback;
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw wrong(option, `expected a whole number from ${min} to ${max}, found ${value}`);
}

const wrong = (option: string, message: string) => new ConfigError(`openAiBackend: ${option}: ${message}`);
