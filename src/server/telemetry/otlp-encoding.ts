import type { HrTime, SpanContext as OtelContext, SpanKind as OtelKind } from '@opentelemetry/api';
import {
  JsonMetricsSerializer,
  JsonTraceSerializer,
  ProtobufMetricsSerializer,
  ProtobufTraceSerializer,
} from '@opentelemetry/otlp-transformer';
import { cutText } from '../../base/text.ts';
import { version } from '../../base/version.ts';
import type { OtlpProtocol } from '../../config/telemetry.ts';
import { knownSecrets } from '../secrets/redactor.ts';
import type { CollectedMetrics } from './collected-metrics.ts';
import type { Attributes, EndedSpan, SpanKind } from './span.ts';
import type { SpanContext } from './trace-context.ts';

/** Names come from models, servers and guests: what is longer is cut. */
const MAX_TEXT_CHARS = 256;

const contentTypes = { 'http/protobuf': 'application/x-protobuf', 'http/json': 'application/json' } as const;
const kinds: Readonly<Record<SpanKind, OtelKind>> = { internal: 0, server: 1, client: 2 };
const UNSET = 0;
const ERROR = 2;

type TraceRequest = Parameters<typeof JsonTraceSerializer.serializeRequest>[0];
type ReadableSpan = TraceRequest[number];
type MetricsRequest = Parameters<typeof JsonMetricsSerializer.serializeRequest>[0];

/** What a collector is sent, and what it says about it. */
export interface OtlpEncoding {
  readonly contentType: string;
  spans(spans: readonly EndedSpan[]): Uint8Array;
  metrics(metrics: CollectedMetrics): Uint8Array;
  /** How many of the spans in an answer to them the collector refused. */
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

/** No secret that this process knows, and not too long. */
const clean = (text: string): string => cutText(knownSecrets.redact(text), MAX_TEXT_CHARS);
