import type { SpanContext } from './trace-context.ts';

export type SpanKind = 'internal' | 'server' | 'client';

export type Attributes = Record<string, string | number | boolean | readonly string[]>;

/** A span that has ended. Times are milliseconds since the Unix epoch. */
export interface EndedSpan {
  readonly context: SpanContext;
  /** Null: it is the first of its trace. */
  readonly parent: SpanContext | null;
  readonly name: string;
  readonly kind: SpanKind;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  /** A word of ours, or of a protocol; null: it went well. */
  readonly errorType: string | null;
}

export interface SpanStart {
  readonly name: string;
  /** @default internal */
  readonly kind?: SpanKind | undefined;
  /** Null: nothing is above it, and its trace is a new one unless `trace` says which. */
  readonly parent: SpanContext | null;
  /** The ids that it has. @default its parent's trace, or a random one, and a random span */
  readonly context?: SpanContext | undefined;
  /** @default now */
  readonly startMs?: number | undefined;
  readonly attributes?: Attributes | undefined;
}

/** Something that takes time, until it has ended. */
export interface Span {
  readonly context: SpanContext;
  set(attributes: Attributes): void;
  /** Once; what comes later is ignored. `errorType`: what went wrong, a word of a small set. */
  end(errorType?: string | null, endMs?: number): void;
}

/** Makes spans. What it is given never waits, and never fails the work that is traced. */
export interface Tracer {
  begin(start: SpanStart): Span;
  /** Whether a new trace of this id is sent; below a parent, what the parent says where the sampler follows it. */
  samples(traceId: string, parent: SpanContext | null): boolean;
}

/** How a run is traced. */
export interface RunTracing {
  readonly tracer: Tracer;
  /** What the run, or this attempt at it, is a part of; null: it is a trace of its own, found by its id. */
  readonly parent: SpanContext | null;
  /** The name of its task; null: it has none. */
  readonly agent: string | null;
  /** Of its span. @default `invoke_agent` and the name of its task */
  readonly name?: string | undefined;
  readonly attributes?: Attributes | undefined;
}

/** Now, as spans have it: finer than a clock of milliseconds, and never backwards within a process. */
export const nowMs = (): number => performance.timeOrigin + performance.now();

/** When a moment of `performance.now()` was. */
export const atMs = (monotonicMs: number): number => performance.timeOrigin + monotonicMs;
