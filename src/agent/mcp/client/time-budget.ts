import { abortWith } from '../../../base/abort.ts';

/**
 * Time that is spent only while something counts against it. A call has two: one for waiting in line, one for the
 * server's work; connecting has a deadline of its own and counts against neither.
 */
export class TimeBudget {
  #leftMs: number;
  readonly #outer: AbortSignal | null;
  readonly #spent: () => unknown;

  /** `spent` makes the reason of the abort when the time is over. */
  constructor(totalMs: number, outer: AbortSignal | null, spent: () => unknown) {
    this.#leftMs = totalMs;
    this.#outer = outer;
    this.#spent = spent;
  }

  get leftMs(): number {
    return this.#leftMs;
  }

  /** Runs `work` with a signal that aborts with the caller's signal, or when the rest of the time is over. */
  async spend<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    const unlink = abortWith(controller, this.#outer);
    const timer = setTimeout(() => controller.abort(this.#spent()), this.#leftMs);
    const startedAt = performance.now();
    try {
      return await work(controller.signal);
    } finally {
      clearTimeout(timer);
      unlink();
      this.#leftMs = Math.max(0, this.#leftMs - (performance.now() - startedAt));
    }
  }
}
