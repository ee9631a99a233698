import type { CompiledSampler } from '../../config/telemetry.ts';
import { type SpanContext, traceOfRun, traceparentOf } from './trace-context.ts';

export type SpanKind = 'internal' | 'server' | 'client';

export type Attributes = Record<string, string | number | boolean | readonly string[]>;

/** A span that has ended. Times are milliseconds since the Unix epoch. */
export interface EndedSpan {
  readonly context: SpanContext;
  /** Null: the root span of its trace. */
  readonly parent: SpanContext | null;
  readonly name: string;
  readonly kind: SpanKind;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  /** An error code of this project or of a protocol; null: success. */
  readonly errorType: string | null;
}

export interface SpanStart {
  readonly name: string;
  /** @default internal */
  readonly kind?: SpanKind | undefined;
  /** Null: no parent; its trace is new unless `context` names one. */
  readonly parent: SpanContext | null;
  /** Its ids. @default the parent's trace or a random one, and a random span id */
  readonly context?: SpanContext | undefined;
  /** @default now */
  readonly startMs?: number | undefined;
  readonly attributes?: Attributes | undefined;
}

/** An operation that is being traced. */
export interface Span {
  readonly context: SpanContext;
  set(attributes: Attributes): void;
  /** Ends the span; later calls are ignored. `errorType`: an error code from a small set. */
  end(errorType?: string | null, endMs?: number): void;
}

/** Creates spans. A tracer never blocks and never fails the traced work. */
export interface Tracer {
  begin(start: SpanStart): Span;
  /** Whether a trace with this id is exported; with a parent, the parent's decision if the sampler follows it. */
  samples(traceId: string, parent: SpanContext | null): boolean;
}

/** How a run is traced. */
export interface RunTracing {
  readonly tracer: Tracer;
  /** Parent of the run or of this attempt; null: the run has its own trace, derived from its id. */
  readonly parent: SpanContext | null;
  /** Name of the task, or null. */
  readonly agent: string | null;
  /** Name of its span. @default `invoke_agent` and the name of its task */
  readonly name?: string | undefined;
  readonly attributes?: Attributes | undefined;
}

/** Current time for spans: below one millisecond of resolution, and monotonic within a process. */
export const nowMs = (): number => performance.timeOrigin + performance.now();

/** Converts a `performance.now()` value to epoch milliseconds. */
export const atMs = (monotonicMs: number): number => performance.timeOrigin + monotonicMs;

/** The last 7 bytes of a trace id are random by specification and decide about sampling. */
const RANDOM_DIGITS = 14;

/** Sampling decision: the parent's, or by ratio over the trace id, equal in every process. */
export function isSampled(
  { followsParent, ratio }: CompiledSampler,
  traceId: string,
  parent: SpanContext | null,
): boolean {
  if (followsParent && parent !== null) return parent.isSampled;
  if (ratio >= 1) return true;
  if (ratio <= 0) return false;
  const drawn = Number.parseInt(traceId.slice(-RANDOM_DIGITS), 16) / 16 ** RANDOM_DIGITS;
  return drawn >= 1 - ratio;
}

/** The traceparent that is stored with a new run: its parent, or its own trace. */
export function traceparentOfRun(tracer: Tracer, run: string, by: SpanContext | null): string {
  if (by !== null) return traceparentOf(by);
  const ids = traceOfRun(run);
  return traceparentOf({ ...ids, isSampled: tracer.samples(ids.traceId, null) });
}
