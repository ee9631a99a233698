import type { HrTime, SpanContext as OtelContext, SpanKind as OtelKind } from '@opentelemetry/api';
import {
  JsonMetricsSerializer,
  JsonTraceSerializer,
  ProtobufMetricsSerializer,
  ProtobufTraceSerializer,
} from '@opentelemetry/otlp-transformer';
import { Agent, errors, request } from 'undici';
import { errorCode, errorText } from '../../base/errors.ts';
import { cutText } from '../../base/text.ts';
import { version } from '../../base/version.ts';
import type { OtlpProtocol } from '../../config/telemetry.ts';
import { knownSecrets } from '../secrets/redactor.ts';
import type { Secret } from '../secrets/secret.ts';
import type { CollectedMetrics } from './metrics.ts';
import type { Attributes, EndedSpan, SpanKind } from './span.ts';
import type { SpanContext } from './trace-context.ts';

/** Names come from models, servers and guests; longer ones are truncated. */
const MAX_TEXT_CHARS = 256;

const contentTypes = { 'http/protobuf': 'application/x-protobuf', 'http/json': 'application/json' } as const;
const kinds: Readonly<Record<SpanKind, OtelKind>> = { internal: 0, server: 1, client: 2 };
const UNSET = 0;
const ERROR = 2;

type TraceRequest = Parameters<typeof JsonTraceSerializer.serializeRequest>[0];
type ReadableSpan = TraceRequest[number];
type MetricsRequest = Parameters<typeof JsonMetricsSerializer.serializeRequest>[0];

/** Encoding of requests to a collector, and decoding of its responses. */
export interface OtlpEncoding {
  readonly contentType: string;
  spans(spans: readonly EndedSpan[]): Uint8Array;
  metrics(metrics: CollectedMetrics): Uint8Array;
  /** Number of spans that the collector rejected, from its response. */
  refusedSpans(answer: Uint8Array): number;
}

export function otlpEncoding(protocol: OtlpProtocol, attributes: Readonly<Record<string, string>>): OtlpEncoding {
  const isJson = protocol === 'http/json';
  const traces = isJson ? JsonTraceSerializer : ProtobufTraceSerializer;
  const measures = isJson ? JsonMetricsSerializer : ProtobufMetricsSerializer;
  const resource = resourceOf(attributes);
  return {
    contentType: contentTypes[protocol],
    spans: (spans) => encoded(traces.serializeRequest(spans.map((span) => readable(span, resource)))),
    metrics: (metrics) => encoded(measures.serializeRequest({ ...(metrics as MetricsRequest), resource })),
    refusedSpans: (answer) => {
      const refused = answer.length === 0 ? 0 : traces.deserializeResponse(answer).partialSuccess?.rejectedSpans;
      return Number(refused ?? 0);
    },
  };
}

function encoded(bytes: Uint8Array | undefined): Uint8Array {
  if (bytes === undefined) throw new Error('OTLP serialization returned no data');
  return bytes;
}

function resourceOf(attributes: Readonly<Record<string, string>>): ReadableSpan['resource'] {
  const resource: ReadableSpan['resource'] = {
    attributes,
    merge: () => resource,
    getRawAttributes: () => Object.entries(attributes),
  };
  return resource;
}

function readable(span: EndedSpan, resource: ReadableSpan['resource']): ReadableSpan {
  const { context, parent, name, kind, startMs, endMs, errorType } = span;
  const error = errorType === null ? {} : { 'error.type': errorType };
  return {
    name: clean(name),
    kind: kinds[kind],
    spanContext: () => contextOf(context, false),
    ...(parent === null ? {} : { parentSpanContext: contextOf(parent, false) }),
    startTime: timeOf(startMs),
    endTime: timeOf(Math.max(startMs, endMs)),
    duration: timeOf(Math.max(0, endMs - startMs)),
    status: { code: errorType === null ? UNSET : ERROR },
    attributes: cleanAttributes({ ...span.attributes, ...error }),
    links: [],
    events: [],
    ended: true,
    resource,
    instrumentationScope: { name: 'spear', version },
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

const contextOf = ({ traceId, spanId, isSampled }: SpanContext, isRemote: boolean): OtelContext => ({
  traceId,
  spanId,
  traceFlags: isSampled ? 1 : 0,
  isRemote,
});

function timeOf(ms: number): HrTime {
  const seconds = Math.trunc(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}

function cleanAttributes(attributes: Attributes): Record<string, string | number | boolean | string[]> {
  const entries = Object.entries(attributes).map(([key, value]): [string, string | number | boolean | string[]] => {
    if (typeof value === 'string') return [key, clean(value)];
    return [key, typeof value === 'object' ? value.map(clean) : value];
  });
  return Object.fromEntries(entries);
}

/** Redacts known secrets and truncates. */
const clean = (text: string): string => cutText(knownSecrets.redact(text), MAX_TEXT_CHARS);

/** Outcome of a request. `later`: a retry may succeed. */
export type Delivery =
  | { readonly kind: 'taken'; readonly answer: Uint8Array }
  | { readonly kind: 'refused' | 'later'; readonly why: string };

export type Post = (url: string, body: Uint8Array, signal: AbortSignal) => Promise<Delivery>;

export interface Collector {
  readonly post: Post;
  close(): Promise<void>;
}

/** A response holds no more than a count. */
const MAX_ANSWER_BYTES = 64 * 1024;
/** Statuses that the protocol declares retryable. */
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** HTTP client of one collector. Redirects are not followed, because they would leak the headers. */
export function openCollector(
  contentType: string,
  secrets: ReadonlyMap<string, Secret>,
  userAgent: string,
  timeoutMs: number,
): Collector {
  const agent = new Agent({
    connections: 2,
    maxResponseSize: MAX_ANSWER_BYTES,
    connect: { timeout: timeoutMs },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
  });
  const headers: Record<string, string> = { 'user-agent': userAgent };
  for (const [name, value] of secrets) headers[name] = value.reveal();
  headers['content-type'] = contentType;
  const post: Post = async (url, body, signal) => {
    const within = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    try {
      const answer = await request(url, { dispatcher: agent, method: 'POST', headers, body, signal: within });
      const said = new Uint8Array(await answer.body.arrayBuffer());
      if (answer.statusCode >= 200 && answer.statusCode <= 299) return { kind: 'taken', answer: said };
      const why = `HTTP status ${answer.statusCode}`;
      return { kind: passing.has(answer.statusCode) ? 'later' : 'refused', why };
    } catch (error) {
      if (error instanceof errors.ResponseExceededMaxSizeError) return { kind: 'taken', answer: new Uint8Array() };
      const why = within.aborted ? `no response within ${timeoutMs} ms` : (errorCode(error) ?? errorText(error));
      return { kind: 'later', why };
    }
  };
  return { post, close: () => agent.destroy() };
}
