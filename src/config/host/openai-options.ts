import { isHeaderValue } from '../../base/http-header.ts';
import type { Waiting } from '../../base/waiting.ts';
import { Secret } from '../../server/secrets/secret.ts';
import { ConfigError } from '../config-error.ts';
import { headerSecret } from '../header-secret.ts';
import { type OptionKeys, refuseUnknownKeys } from '../option-keys.ts';
import { type CompiledOpenAiBackend, OPENAI_DEFAULT_BASE_URL } from './backends.ts';
import { backendUrlComplaint, headerNameComplaint } from './http.ts';
import { type ImagePlacement, imagePlacements } from './image-placement.ts';
import { type BackendLimitName, backendLimitSpecs } from './limits.ts';

/** A model behind an OpenAI-compatible API, as a program names it. */
export interface OpenAiOptions {
  /** Its name; shown to guests as `_spear.backend`. @default 'openai' */
  readonly name?: string | undefined;
  /** What `/chat/completions` is appended to. @default https://api.openai.com/v1 */
  readonly baseUrl?: string | undefined;
  /** The key itself. It is redacted from everything that leaves the process. @default none is sent */
  readonly apiKey?: string | undefined;
  /** The model of sessions that name none. @default none */
  readonly model?: string | undefined;
  /** Where its model takes images of tool results. @default 'none' */
  readonly images?: ImagePlacement | undefined;
  /** Further headers of every request. @default none */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Told when an answer, or another try, is waited for. @default nobody is */
  readonly waiting?: Waiting | undefined;
  /** Deadline of one request, its retries included. @default 600000 */
  readonly timeoutMs?: number | undefined;
  /** Deadline of opening a connection. @default 10000 */
  readonly connectTimeoutMs?: number | undefined;
  /** Tries after the first on 429, 502, 503, 504 and connection errors. @default 3 */
  readonly maxRetries?: number | undefined;
  /** Largest answer that is read. @default 33554432 */
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
  if (!imagePlacements.includes(images)) throw wrong('images', `expected one of ${imagePlacements.join(', ')}`);
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
