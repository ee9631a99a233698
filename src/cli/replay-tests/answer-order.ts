import { setTimeout as wait } from 'node:timers/promises';

/** How long an answer waits for one that came before it: the guest may be one that never asks for that. */
const PATIENCE_MS = 250;

/** Gives answers of a model in the order in which they came, whichever of them is asked for first. */
export class AnswerOrder {
  readonly #given = new Set<number>();
  /** All before it were given. */
  #next = 0;
  readonly #waiting = new Set<() => void>();

  /** Waits until all answers before this one were given, and then as long as it came after the last of them. */
  async turn(order: number, gapMs: number, signal: AbortSignal): Promise<void> {
    if (order > this.#next) await this.#earlier(order, signal);
    if (gapMs > 0) await wait(gapMs, undefined, { signal });
    this.#given.add(order);
    while (this.#given.delete(this.#next)) this.#next += 1;
    for (const wake of [...this.#waiting]) wake();
  }

  async #earlier(order: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const look = () => {
      if (order <= this.#next) resolve();
    };
    const over = new AbortController();
    this.#waiting.add(look);
    try {
      const patience = wait(PATIENCE_MS, undefined, { signal: AbortSignal.any([signal, over.signal]) });
      await Promise.race([promise, patience]);
      patience.catch(() => {}); // it is ended below
    } finally {
      over.abort();
      this.#waiting.delete(look);
    }
  }
}
