import type { z } from 'zod';
import { isHeaderValue } from '../base/text.ts';
import type { LimitSpec } from '../runtime/port/limits.ts';
import type { Secret, SecretSources } from '../server/secrets/secret.ts';
import { ConfigError } from './config-error.ts';
import type { SchemaKit } from './document.ts';
import { backendUrlComplaint, headerNameComplaint, headerSecret } from './http-settings.ts';
import { type ConfigOrigin, readSecret, secretSourcesOf } from './secret-reference.ts';

/*
 * Export of traces and metrics: `[telemetry]` merged with the standard OTEL_* variables, which take precedence. Variables
 * that this program does not support are ignored. Header values are secrets and never part of an error message.
 */

/** Limits of the `[telemetry]` table, same names. */
export const telemetryLimitSpecs = {
  timeout_ms: { default: 10_000, min: 100, max: 600_000, doc: 'deadline of one request to the collector' },
  metric_interval_ms: { default: 60_000, min: 1_000, max: 86_400_000, doc: 'interval between two metric exports' },
  span_delay_ms: { default: 1_000, min: 1, max: 60_000, doc: 'how long spans are batched before they are sent' },
  max_queued_spans: {
    default: 2_048,
    min: 1,
    max: 1_000_000,
    doc: 'queued spans; further spans are dropped and counted',
  },
} as const satisfies Record<string, LimitSpec>;

export const otlpProtocols = ['http/protobuf', 'http/json'] as const;
export type OtlpProtocol = (typeof otlpProtocols)[number];

/** `[telemetry]` of a host and of a registry: the OpenTelemetry collector for traces and metrics. */
export const telemetryTable = ({ z, strictTable, limitFields, nonEmpty, secretReference }: SchemaKit) =>
  strictTable({
    endpoint: nonEmpty.optional(),
    protocol: z.enum(otlpProtocols).optional(),
    headers: z.record(z.string(), secretReference).optional(),
    traces: z.boolean().optional(),
    metrics: z.boolean().optional(),
    sample_ratio: z.number().min(0).max(1).optional(),
    service_name: nonEmpty.optional(),
    resource: z.record(nonEmpty, nonEmpty).optional(),
    ...limitFields(telemetryLimitSpecs),
  });

export type TelemetryTable = z.infer<ReturnType<typeof telemetryTable>>;

const ENDPOINT = 'OTEL_EXPORTER_OTLP_ENDPOINT';

const headerVariables = [
  'OTEL_EXPORTER_OTLP_HEADERS',
  'OTEL_EXPORTER_OTLP_TRACES_HEADERS',
  'OTEL_EXPORTER_OTLP_METRICS_HEADERS',
] as const;

/** Which traces are exported. */
export interface CompiledSampler {
  /** Whether the sampling flag of an incoming trace decides. */
  readonly followsParent: boolean;
  /** Exported share of the other traces, 0 to 1. */
  readonly ratio: number;
}

/** Telemetry export of this process. */
export interface CompiledTelemetry {
  /** Null: the signal is not exported. */
  readonly tracesUrl: string | null;
  readonly metricsUrl: string | null;
  readonly protocol: OtlpProtocol;
  /** Reads the request headers when the exporter starts. @throws ConfigError */
  readonly headers: () => ReadonlyMap<string, Secret>;
  /** Null: the command's name. */
  readonly serviceName: string | null;
  readonly resource: Readonly<Record<string, string>>;
  readonly sampler: CompiledSampler;
  /** `TRACEPARENT`, the parent span of this process; null: none. */
  readonly parent: string | null;
  readonly timeoutMs: number;
  readonly metricIntervalMs: number;
  readonly spanDelayMs: number;
  readonly maxQueuedSpans: number;
}

type Env = NodeJS.ProcessEnv;

/**
 * Merges the standard OTEL_* variables with the table; a variable overrides the table. Null: nothing is exported.
 * @throws ConfigError
 */
export function compileTelemetry(
  table: TelemetryTable | undefined,
  file: ConfigOrigin,
  sources: SecretSources,
): CompiledTelemetry | null {
  const { env } = sources;
  if (!hasCollector(table, env)) return null;
  const tracesUrl = signalUrl('TRACES', '/v1/traces', table?.traces ?? true, table, env);
  const metricsUrl = signalUrl('METRICS', '/v1/metrics', table?.metrics ?? true, table, env);
  if (tracesUrl === null && metricsUrl === null) return null;
  const limits = telemetryLimitSpecs;
  const interval = env.OTEL_METRIC_EXPORT_INTERVAL;
  return Object.freeze({
    tracesUrl,
    metricsUrl,
    protocol: protocolOf(table, env),
    headers: () => headersOf(table, file, sources),
    serviceName: env.OTEL_SERVICE_NAME || table?.service_name || null,
    resource: Object.freeze({ ...table?.resource, ...pairs('OTEL_RESOURCE_ATTRIBUTES', env) }),
    sampler: samplerOf(table, env),
    parent: env.TRACEPARENT || null,
    timeoutMs: number('OTEL_EXPORTER_OTLP_TIMEOUT', env, limits.timeout_ms, table?.timeout_ms),
    metricIntervalMs: interval
      ? number('OTEL_METRIC_EXPORT_INTERVAL', env, { ...limits.metric_interval_ms, min: 10 }, undefined)
      : (table?.metric_interval_ms ?? limits.metric_interval_ms.default),
    spanDelayMs: number('OTEL_BSP_SCHEDULE_DELAY', env, limits.span_delay_ms, table?.span_delay_ms),
    maxQueuedSpans: number('OTEL_BSP_MAX_QUEUE_SIZE', env, limits.max_queued_spans, table?.max_queued_spans),
  });
}

function signalUrl(
  signal: 'TRACES' | 'METRICS',
  path: string,
  isOn: boolean,
  table: TelemetryTable | undefined,
  env: Env,
): string | null {
  const exporter = env[`OTEL_${signal}_EXPORTER`];
  if (exporter && exporter !== 'otlp' && exporter !== 'none') {
    throw new ConfigError(`OTEL_${signal}_EXPORTER: expected otlp or none, found "${exporter}"`);
  }
  if (exporter === 'none' || (!exporter && !isOn)) return null;
  const own = `OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`;
  if (env[own]) return checkedUrl(own, env[own]);
  const [where, base] = env[ENDPOINT] ? [ENDPOINT, env[ENDPOINT]] : ['telemetry.endpoint', table?.endpoint];
  if (base === undefined) return null;
  const url = new URL(checkedUrl(where, base));
  url.pathname = `${url.pathname.replace(/\/+$/, '')}${path}`;
  return url.href;
}

function checkedUrl(where: string, text: string): string {
  const complaint = backendUrlComplaint(text)?.replace('https://api.openai.com/v1', 'http://127.0.0.1:4318');
  if (complaint !== undefined)
    throw new ConfigError(`${where}: ${complaint.replace('use api_key or headers', 'use headers')}`);
  return text;
}

function protocolOf(table: TelemetryTable | undefined, env: Env): OtlpProtocol {
  const text = env.OTEL_EXPORTER_OTLP_PROTOCOL;
  if (!text) return table?.protocol ?? 'http/protobuf';
  const known = otlpProtocols.find((one) => one === text);
  if (known !== undefined) return known;
  throw new ConfigError(`OTEL_EXPORTER_OTLP_PROTOCOL: expected ${otlpProtocols.join(' or ')}, found "${text}"`);
}

const samplers: Readonly<Record<string, CompiledSampler | 'ratio' | 'parent_ratio'>> = {
  always_on: { followsParent: false, ratio: 1 },
  always_off: { followsParent: false, ratio: 0 },
  traceidratio: 'ratio',
  parentbased_always_on: { followsParent: true, ratio: 1 },
  parentbased_always_off: { followsParent: true, ratio: 0 },
  parentbased_traceidratio: 'parent_ratio',
};

function samplerOf(table: TelemetryTable | undefined, env: Env): CompiledSampler {
  const name = env.OTEL_TRACES_SAMPLER;
  if (!name) return { followsParent: true, ratio: table?.sample_ratio ?? 1 };
  const sampler = Object.hasOwn(samplers, name) ? samplers[name] : undefined;
  if (sampler === undefined) {
    throw new ConfigError(`OTEL_TRACES_SAMPLER: expected one of ${Object.keys(samplers).join(', ')}, found "${name}"`);
  }
  if (typeof sampler === 'object') return sampler;
  const ratio = Number(env.OTEL_TRACES_SAMPLER_ARG || 1);
  if (!(ratio >= 0 && ratio <= 1)) {
    throw new ConfigError(
      `OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1, found "${env.OTEL_TRACES_SAMPLER_ARG}"`,
    );
  }
  return { followsParent: sampler === 'parent_ratio', ratio };
}

function number(
  name: string,
  env: Env,
  { default: fallback, min, max }: LimitSpec,
  inFile: number | undefined,
): number {
  const text = env[name];
  if (!text) return inFile ?? fallback;
  const value = Number(text);
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new ConfigError(`${name}: expected a whole number from ${min} to ${max}, found "${text}"`);
}

/** Parses `a=b,c=d` with URL-encoded values. Errors never show values, because such a variable may hold keys. */
function pairs(name: string, env: Env): Record<string, string> {
  const found: Record<string, string> = {};
  for (const pair of (env[name] ?? '').split(',')) {
    if (pair.trim() === '') continue;
    const at = pair.indexOf('=');
    const key = pair.slice(0, at).trim();
    try {
      if (at < 1 || key === '') throw new Error('no name');
      found[key] = decodeURIComponent(pair.slice(at + 1).trim());
    } catch {
      throw new ConfigError(`${name}: expected NAME=VALUE,NAME=VALUE with URL-encoded values`);
    }
  }
  return found;
}

function headersOf(
  table: TelemetryTable | undefined,
  file: ConfigOrigin,
  sources: SecretSources,
): ReadonlyMap<string, Secret> {
  const headers = new Map<string, Secret>();
  for (const [name, reference] of Object.entries(table?.headers ?? {})) {
    const where = `${file?.path}: telemetry.headers.${name}`;
    const secret = readSecret(reference, where, secretSourcesOf(file, sources));
    headers.set(name.toLowerCase(), checkedHeader(where, name, secret.reveal()));
  }
  for (const variable of headerVariables) {
    for (const [name, value] of Object.entries(pairs(variable, sources.env))) {
      headers.set(name.toLowerCase(), checkedHeader(`${variable}: ${name}`, name, value));
    }
  }
  return headers;
}

function checkedHeader(where: string, name: string, value: string): Secret {
  const complaint =
    headerNameComplaint(name) ?? (isHeaderValue(value) ? undefined : 'has a value that an HTTP header cannot carry');
  if (complaint !== undefined) throw new ConfigError(`${where} ${complaint}`);
  return headerSecret(name, value);
}

/** Whether a collector is configured for traces or metrics. */
function hasCollector(table: TelemetryTable | undefined, env: Env): boolean {
  const endpoint = env[ENDPOINT] || env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || env.OTEL_EXPORTER_OTLP_METRICS_ENDPOINT;
  return (!!endpoint || table?.endpoint !== undefined) && env.OTEL_SDK_DISABLED?.toLowerCase() !== 'true';
}

/** Environment variables that may hold keys of a collector: records of MCP servers must not refer to them. */
export function telemetryKeyVariables(table: TelemetryTable | undefined): string[] {
  const inTable = Object.values(table?.headers ?? {}).flatMap((reference) =>
    reference.startsWith('env:') ? [reference.slice('env:'.length)] : [],
  );
  return [...headerVariables, ...inTable];
}
