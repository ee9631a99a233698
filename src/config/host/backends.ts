import { resolve } from 'node:path';
import { isHeaderValue } from '../../base/http-header.ts';
import { isSecretReference, resolveSecret, Secret, SecretError } from '../../server/secrets/secret.ts';
import { ConfigError } from '../config-error.ts';
import type { ConfigFile, ReadTextFile } from '../config-file.ts';
import { headerSecret } from '../header-secret.ts';
import { backendUrlComplaint } from './http.ts';
import type { ImagePlacement } from './image-placement.ts';
import { backendLimitSpecs } from './limits.ts';
import type { BackendTable, OpenAiBackendTable } from './schema.ts';

export const OPENAI_DEFAULT_BASE_URL = 'https://api.openai.com/v1';

export interface CompiledOpenAiBackend {
  readonly kind: 'openai';
  readonly name: string;
  readonly baseUrl: string;
  readonly model: string | undefined;
  readonly images: ImagePlacement;
  /** Read when it is first asked for, as the headers are: a key that a run does not use is never looked at. */
  readonly apiKey: Secret | undefined;
  /** Further headers of every request; their values are treated as secrets. */
  readonly headers: ReadonlyMap<string, Secret>;
  readonly timeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly maxRetries: number;
  readonly maxResponseBytes: number;
  /** Why it cannot be used here (a key that is not set). Only a run that asks for this backend fails by it. */
  readonly problem: string | undefined;
}

export interface CompiledScriptedBackend {
  readonly kind: 'scripted';
  readonly name: string;
  /** An absolute path. */
  readonly script: string;
}

export interface CompiledStubBackend {
  readonly kind: 'stub';
  readonly name: string;
}

export type CompiledBackend = CompiledOpenAiBackend | CompiledScriptedBackend | CompiledStubBackend;

export interface BackendSources {
  env: NodeJS.ProcessEnv;
  /** Reads what a `file:` reference names. */
  readSecret: ReadTextFile;
}

/** The backend of one `[backends.<name>]` table. */
export function compileBackend(
  name: string,
  table: BackendTable,
  file: ConfigFile,
  sources: BackendSources,
): CompiledBackend {
  switch (table.kind) {
    case 'openai':
      return compileOpenAi(name, table, file, sources);
    case 'scripted':
      return Object.freeze({ kind: 'scripted', name, script: resolve(file.folder, table.script) });
    case 'stub':
      return Object.freeze({ kind: 'stub', name });
  }
}

/** What OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL alone define, or the stub. */
export function backendOfEnvironment(env: NodeJS.ProcessEnv): CompiledBackend {
  if (!env.OPENAI_API_KEY && !env.OPENAI_BASE_URL) return Object.freeze({ kind: 'stub', name: 'stub' });
  const baseUrl = env.OPENAI_BASE_URL || OPENAI_DEFAULT_BASE_URL;
  const complaint = backendUrlComplaint(baseUrl);
  if (complaint !== undefined) throw new ConfigError(`OPENAI_BASE_URL: ${complaint}`);
  const key = env.OPENAI_API_KEY?.trim();
  const usable = key === undefined || isHeaderValue(key);
  return Object.freeze({
    kind: 'openai',
    name: 'openai',
    baseUrl,
    model: env.OPENAI_MODEL || undefined,
    images: 'none',
    apiKey: key && usable ? new Secret(key) : undefined,
    headers: new Map(),
    timeoutMs: backendLimitSpecs.timeout_ms.default,
    connectTimeoutMs: backendLimitSpecs.connect_timeout_ms.default,
    maxRetries: backendLimitSpecs.max_retries.default,
    maxResponseBytes: backendLimitSpecs.max_response_bytes.default,
    problem: usable ? undefined : 'OPENAI_API_KEY contains characters that an HTTP header cannot carry',
  });
}

function compileOpenAi(
  name: string,
  table: OpenAiBackendTable,
  file: ConfigFile,
  sources: BackendSources,
): CompiledOpenAiBackend {
  refuseDoubleHeaders(name, table, file);
  let resolved: ResolvedSecrets | undefined;
  const secrets = () => {
    resolved ??= resolveSecrets(name, table, file, sources);
    return resolved;
  };
  return Object.freeze({
    kind: 'openai',
    name,
    baseUrl: table.base_url,
    model: table.model,
    images: table.images ?? 'none',
    get apiKey() {
      return secrets().apiKey;
    },
    get headers() {
      return secrets().headers;
    },
    timeoutMs: table.timeout_ms ?? backendLimitSpecs.timeout_ms.default,
    connectTimeoutMs: table.connect_timeout_ms ?? backendLimitSpecs.connect_timeout_ms.default,
    maxRetries: table.max_retries ?? backendLimitSpecs.max_retries.default,
    maxResponseBytes: table.max_response_bytes ?? backendLimitSpecs.max_response_bytes.default,
    get problem() {
      return secrets().problem;
    },
  });
}

type ResolvedSecrets = Pick<CompiledOpenAiBackend, 'apiKey' | 'headers' | 'problem'>;

function resolveSecrets(
  name: string,
  table: OpenAiBackendTable,
  file: ConfigFile,
  sources: BackendSources,
): ResolvedSecrets {
  const read = { env: sources.env, readFile: (path: string) => sources.readSecret(resolve(file.folder, path)) };
  const problems: string[] = [];
  const secretOf = (field: string, value: string, literal: (text: string) => Secret): Secret | undefined => {
    try {
      const secret = isSecretReference(value) ? resolveSecret(value, read) : literal(value);
      if (isHeaderValue(secret.reveal())) return secret;
      problems.push(`${file.path}: ${field}: contains characters that an HTTP header cannot carry`);
    } catch (error) {
      if (!(error instanceof SecretError)) throw error;
      problems.push(`${file.path}: ${field}: ${error.message}`);
    }
    return undefined;
  };

  const keyField = `backends.${name}.api_key`;
  const apiKey =
    table.api_key === undefined ? undefined : secretOf(keyField, table.api_key, (text) => new Secret(text));
  const headers = new Map<string, Secret>();
  for (const [header, value] of Object.entries(table.headers ?? {})) {
    const secret = secretOf(`backends.${name}.headers.${header}`, value, (text) => headerSecret(header, text));
    if (secret !== undefined) headers.set(header.toLowerCase(), secret);
  }
  return { apiKey, headers, problem: problems.length === 0 ? undefined : problems.join('\n') };
}

function refuseDoubleHeaders(name: string, table: OpenAiBackendTable, file: ConfigFile): void {
  const seen = new Set<string>();
  for (const header of Object.keys(table.headers ?? {})) {
    const lowerCase = header.toLowerCase();
    const field = `backends.${name}.headers.${header}`;
    if (seen.has(lowerCase)) throw new ConfigError(`${file.path}: ${field}: the header is set twice`);
    if (lowerCase === 'authorization' && table.api_key !== undefined) {
      throw new ConfigError(`${file.path}: ${field}: api_key already sets this header; remove one of them`);
    }
    seen.add(lowerCase);
  }
}
