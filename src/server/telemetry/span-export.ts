import { backoffMs } from '../../base/timing.ts';
import type { OtlpEncoding } from './otlp-encoding.ts';
import type { Delivery, Post } from './otlp-post.ts';
import type { EndedSpan } from './span.ts';
import type { SpanQueue } from './span-queue.ts';

/** Spans of one request. */
const MAX_BATCH = 512;
/** Requests with the same spans before they are given up. */
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

/** Sends what ended, some at a time and one request after the other. Nothing here keeps a process from ending. */
export class SpanExport {
  readonly #options: SpanExportOptions;
  /** Ends every request and every pause: the time is over. */
  readonly #over = new AbortController();
  readonly #closing = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> | null = null;
  /** Spans that were sent and not taken. */
  lost = 0;

  constructor(options: SpanExportOptions) {
    this.#options = options;
  }

  /** So many spans wait. */
  woken(waiting: number): void {
    if (this.#closing.signal.aborted || this.#sending !== null) return;
    if (waiting >= MAX_BATCH) this.#begin();
    else this.#timer ??= setTimeout(() => this.#begin(), this.#options.delayMs).unref();
  }

  /** Sends what waits, for at most so long. What is left then is lost. */
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

  /** How many of them are lost. */
  async #deliver(batch: readonly EndedSpan[]): Promise<number> {
    const { encoding, post, url, onTrouble } = this.#options;
    const body = encoding.spans(batch);
    for (let tries = 1; !this.#over.signal.aborted; tries++) {
      const delivery = await post(url, body, this.#over.signal);
      if (delivery.kind === 'taken') return this.#refused(delivery, batch.length);
      onTrouble(delivery.why);
      // Who ends does not wait for a collector to come back.
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
      return 0; // it said that it took them, in words of its own
    }
  }

  #pause(ms: number): Promise<void> {
    const { signal } = this.#closing;
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(done, ms).unref();
      signal.addEventListener('abort', done, { once: true });
      function done(): void {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        resolve();
      }
    });
  }
}
