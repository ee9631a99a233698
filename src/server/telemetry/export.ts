/**
 * Export of spans and metrics to an OTLP collector, in the background.
 *
 * Invariants
 * - Ending a span never waits: a span beyond the queue limit is dropped and counted.
 * - One request at a time; a batch is retried up to MAX_TRIES times and then counted as lost.
 * - `close` exports what is buffered within its deadline and does not retry.
 * - Timers do not keep the process alive. Secrets are removed in otlp.ts.
 *
 * Not handled: spans that outlive the process; there is no buffer on disk.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { errorText } from '../../base/errors.ts';
import { backoffMs } from '../../base/timing.ts';
import type { CompiledSampler } from '../../config/telemetry.ts';
import type { CollectMetrics } from './metrics.ts';
import type { Delivery, OtlpEncoding, Post } from './otlp.ts';
import { type Attributes, type EndedSpan, isSampled, nowMs, type Span, type SpanStart, type Tracer } from './span.ts';
import { newSpanId, type SpanContext } from './trace-context.ts';

/** Spans per request. */
const MAX_BATCH = 512;
/** Attempts to send a batch. */
const MAX_TRIES = 5;
const PAUSES = { firstMs: 500, maxMs: 8_000 };

export interface SpanExportOptions {
  readonly queue: SpanQueue;
  readonly encoding: OtlpEncoding;
  readonly url: string;
  readonly post: Post;
  readonly delayMs: number;
  readonly onTrouble: (why: string) => void;
}

/** Sends ended spans in batches, one request at a time. */
export class SpanExport {
  readonly #options: SpanExportOptions;
  /** Aborts every request and every delay at the deadline of `close`. */
  readonly #over = new AbortController();
  readonly #closing = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> | null = null;
  /** Spans that the collector did not accept. */
  lost = 0;

  constructor(options: SpanExportOptions) {
    this.#options = options;
  }

  /** The queue has `waiting` spans. */
  woken(waiting: number): void {
    if (this.#closing.signal.aborted || this.#sending !== null) return;
    if (waiting >= MAX_BATCH) this.#begin();
    else this.#timer ??= setTimeout(() => this.#begin(), this.#options.delayMs).unref();
  }

  /** Sends the queue within the deadline. The rest is lost. */
  async close(withinMs: number): Promise<void> {
    this.#closing.abort();
    const timer = setTimeout(() => this.#over.abort(), withinMs);
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#sending;
    await this.#sendAll();
    clearTimeout(timer);
  }

  #begin(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = null;
    });
  }

  async #sendAll(): Promise<void> {
    const { queue } = this.#options;
    for (let batch = queue.take(MAX_BATCH); batch.length > 0; batch = queue.take(MAX_BATCH)) {
      this.lost += await this.#deliver(batch);
    }
  }

  /** Number of lost spans of the batch. */
  async #deliver(batch: readonly EndedSpan[]): Promise<number> {
    const { encoding, post, url, onTrouble } = this.#options;
    const body = encoding.spans(batch);
    for (let tries = 1; !this.#over.signal.aborted; tries++) {
      const delivery = await post(url, body, this.#over.signal);
      if (delivery.kind === 'taken') return this.#refused(delivery, batch.length);
      onTrouble(delivery.why);
      // A closing process does not wait for the collector to recover.
      if (delivery.kind === 'refused' || tries >= MAX_TRIES || this.#closing.signal.aborted) break;
      await this.#pause(backoffMs(PAUSES, tries, Math));
    }
    return batch.length;
  }

  #refused(delivery: Extract<Delivery, { kind: 'taken' }>, sent: number): number {
    const { encoding, onTrouble } = this.#options;
    try {
      const refused = Math.min(sent, encoding.refusedSpans(delivery.answer));
      if (refused > 0) onTrouble(`${refused} of ${sent} spans rejected`);
      return refused;
    } catch {
      return 0; // accepted, with a response that cannot be parsed
    }
  }

  #pause(ms: number): Promise<void> {
    const { signal } = this.#closing;
    // Aborting ends the delay early.
    return delay(ms, undefined, { signal, ref: false }).catch(() => {});
  }
}

/** A tracer that queues ended spans. Spans beyond the limit are dropped and counted. */
export class SpanQueue implements Tracer {
  readonly #sampler: CompiledSampler;
  readonly #max: number;
  readonly #onWaiting: (waiting: number) => void;
  #waiting: EndedSpan[] = [];
  /** Spans dropped because the queue was full. */
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

/** A span that is not exported; its context can still be propagated. */
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

export interface MetricPushOptions {
  readonly encoding: OtlpEncoding;
  readonly url: string;
  readonly post: Post;
  readonly intervalMs: number;
  readonly onTrouble: (why: string) => void;
}

/** Exports metrics at an interval and once at the end. Sums are cumulative, so a lost export is contained in the next one. */
export class MetricPush {
  readonly #options: MetricPushOptions;
  readonly #collect: CollectMetrics;
  readonly #timer: NodeJS.Timeout;
  readonly #over = new AbortController();
  #pushing: Promise<void> | null = null;

  constructor(options: MetricPushOptions, collect: CollectMetrics) {
    this.#options = options;
    this.#collect = collect;
    this.#timer = setInterval(() => void this.#pushOnce(), options.intervalMs).unref();
  }

  async close(withinMs: number): Promise<void> {
    clearInterval(this.#timer);
    const timer = setTimeout(() => this.#over.abort(), withinMs);
    await this.#pushing;
    await this.#push();
    clearTimeout(timer);
  }

  #pushOnce(): Promise<void> {
    this.#pushing ??= this.#push().finally(() => {
      this.#pushing = null;
    });
    return this.#pushing;
  }

  async #push(): Promise<void> {
    const { encoding, post, url, onTrouble } = this.#options;
    if (this.#over.signal.aborted) return;
    try {
      const delivery = await post(url, encoding.metrics(await this.#collect()), this.#over.signal);
      if (delivery.kind !== 'taken') onTrouble(delivery.why);
    } catch (error) {
      onTrouble(`cannot collect metrics: ${errorText(error)}`);
    }
  }
}
