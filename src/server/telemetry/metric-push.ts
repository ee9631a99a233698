import { errorText } from '../../base/errors.ts';
import type { CollectMetrics } from './collected-metrics.ts';
import type { OtlpEncoding } from './otlp-encoding.ts';
import type { Post } from './otlp-post.ts';

export interface MetricPushOptions {
  readonly encoding: OtlpEncoding;
  readonly url: string;
  readonly post: Post;
  readonly intervalMs: number;
  readonly onTrouble: (why: string) => void;
}

/** Sends what instruments say, every so often and once at the end. Sums are since the start: one that is lost is in the next. */
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
