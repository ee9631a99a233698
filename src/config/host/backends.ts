import { resolve } from 'node:path';
import type { z } from 'zod';
import { isHeaderValue } from '../../base/text.ts';
import {
  isSecretReference,
  resolveSecret,
  Secret,
  SecretError,
  type SecretSources,
} from '../../server/secrets/secret.ts';
import { ConfigError } from '../config-error.ts';
import type { ConfigFile } from '../config-file.ts';
import type { SchemaKit } from '../document.ts';
import { backendUrlComplaint, headerNameComplaint, headerSecret } from '../http-settings.ts';
import { backendLimitSpecs } from '../limits.ts';
import { secretSourcesOf } from '../secret-reference.ts';

/*
 * Model backends of a host: the `[backends.NAME]` tables, or the OPENAI_* variables without a table. Invariant: keys are read
 * on first use, and an unusable key fails only the runs of its backend. Connections are opened by agent/chat/backends.
 */

export const OPENAI_DEFAULT_BASE_URL = 'https://api.openai.com/v1';

const BACKEND_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;

/** Where a backend puts images of tool results: nowhere, in a user message after the results, or in the result. */
export const imageOptions = ['none', 'user_message', 'tool_message'] as const;

const openAiTable = ({ z, strictTable, limitFields, nonEmpty, secretReference }: SchemaKit) => {
  const validBy = (complaintOf: (text: string) => string | undefined) =>
    z.string().superRefine((text, context) => {
      const message = complaintOf(text);
      if (message !== undefined) context.addIssue({ code: 'custom', message });
    });
  return strictTable({
    kind: z.literal('openai'),
    base_url: validBy(backendUrlComplaint),
    model: nonEmpty,
    images: z.enum(imageOptions).optional(),
    api_key: secretReference.optional(),
    ...limitFields(backendLimitSpecs),
    headers: z.record(validBy(headerNameComplaint), z.string()).optional(),
  });
};

const backendTable = (kit: SchemaKit) => {
  const { z, strictTable, nonEmpty } = kit;
  const scripted = strictTable({ kind: z.literal('scripted'), script: nonEmpty });
  return z.discriminatedUnion('kind', [openAiTable(kit), scripted, strictTable({ kind: z.literal('stub') })]);
};

/** `[backends]`: tables by name. */
export const backendsTable = (kit: SchemaKit) =>
  kit.z.record(
    kit.z
      .string()
      .regex(
        BACKEND_NAME,
        'a backend name has up to 64 letters, digits, "_", "." and "-", and starts with a letter or digit',
      ),
    backendTable(kit),
  );

type BackendTable = z.infer<ReturnType<typeof backendTable>>;
type OpenAiTable = z.infer<ReturnType<typeof openAiTable>>;

export interface CompiledOpenAiBackend {
  readonly kind: 'openai';
  readonly name: string;
  readonly baseUrl: string;
  readonly model: string | undefined;
  readonly images: (typeof imageOptions)[number];
  /** Read on first use, like the headers: the key of an unused backend is never read. */
  readonly apiKey: Secret | undefined;
  /** Additional headers of every request; their values are treated as secrets. */
  readonly headers: ReadonlyMap<string, Secret>;
  readonly timeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly maxRetries: number;
  readonly maxResponseBytes: number;
  /** Why the backend is unusable here, such as an unset key. Fails only the runs that use this backend. */
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

/** Compiles one `[backends.<name>]` table. */
export function compileBackend(
  name: string,
  table: BackendTable,
  file: ConfigFile,
  sources: SecretSources,
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

/** The backend that OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL define, else the stub. */
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
  table: OpenAiTable,
  file: ConfigFile,
  sources: SecretSources,
): CompiledOpenAiBackend {
  rejectDuplicateHeaders(name, table, file);
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

function resolveSecrets(name: string, table: OpenAiTable, file: ConfigFile, sources: SecretSources): ResolvedSecrets {
  const read = secretSourcesOf(file, sources);
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

function rejectDuplicateHeaders(name: string, table: OpenAiTable, file: ConfigFile): void {
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
