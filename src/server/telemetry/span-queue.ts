import { randomBytes } from 'node:crypto';
import type { CompiledSampler } from '../../config/telemetry.ts';
import { isSampled } from './sampler.ts';
import { type Attributes, type EndedSpan, nowMs, type Span, type SpanStart, type Tracer } from './span.ts';
import { newSpanId, type SpanContext } from './trace-context.ts';

/** A tracer whose spans wait here until somebody takes them; what finds no place is counted. */
export class SpanQueue implements Tracer {
  readonly #sampler: CompiledSampler;
  readonly #max: number;
  readonly #onWaiting: (waiting: number) => void;
  #waiting: EndedSpan[] = [];
  /** Spans that found no place. */
  dropped = 0;

  constructor(sampler: CompiledSampler, max: number, onWaiting: (waiting: number) => void) {
    this.#sampler = sampler;
    this.#max = max;
    this.#onWaiting = onWaiting;
  }

  begin(start: SpanStart): Span {
    const context = start.context ?? this.#newContext(start.parent);
    return context.isSampled ? new OpenSpan(start, context, this) : unsampled(context);
  }

  samples(traceId: string, parent: SpanContext | null): boolean {
    return isSampled(this.#sampler, traceId, parent);
  }

  add(span: EndedSpan): void {
    if (this.#waiting.length >= this.#max) {
      this.dropped += 1;
      return;
    }
    this.#waiting.push(span);
    this.#onWaiting(this.#waiting.length);
  }

  take(max: number): EndedSpan[] {
    return this.#waiting.splice(0, max);
  }

  get size(): number {
    return this.#waiting.length;
  }

  #newContext(parent: SpanContext | null): SpanContext {
    const spanId = newSpanId();
    if (parent !== null) return { traceId: parent.traceId, spanId, isSampled: this.samples(parent.traceId, parent) };
    const traceId = randomBytes(16).toString('hex');
    return { traceId, spanId, isSampled: this.samples(traceId, null) };
  }
}

/** Others may go on from it, and nobody is told of it. */
const unsampled = (context: SpanContext): Span => ({ context, set: () => {}, end: () => {} });

class OpenSpan implements Span {
  readonly context: SpanContext;
  readonly #start: SpanStart;
  readonly #startMs: number;
  readonly #attributes: Attributes;
  #queue: SpanQueue | null;

  constructor(start: SpanStart, context: SpanContext, queue: SpanQueue) {
    this.context = context;
    this.#start = start;
    this.#startMs = start.startMs ?? nowMs();
    this.#attributes = { ...start.attributes };
    this.#queue = queue;
  }

  set(attributes: Attributes): void {
    Object.assign(this.#attributes, attributes);
  }

  end(errorType: string | null = null, endMs: number = nowMs()): void {
    const { name, kind = 'internal', parent } = this.#start;
    const startMs = this.#startMs;
    const attributes = this.#attributes;
    const ended = { context: this.context, parent, name, kind, startMs, endMs, attributes, errorType };
    this.#queue?.add(ended);
    this.#queue = null;
  }
}
