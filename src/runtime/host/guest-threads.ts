import { keepSeating, Seating } from './seating.ts';
import type { GuestThreadsOptions, ThreadState } from './threads-options.ts';

export type { GuestThreadsOptions, ThreadState } from './threads-options.ts';

/**
 * A few threads that guests share, many on each. A thread has guests of one namespace. One that does not turn round
 * within `limits.turn_ms` is ended, its guests are lost to it, and the module that held it is seated here no more.
 */
export class GuestThreads implements AsyncDisposable {
  readonly #seating: Seating;

  /** @throws ConfigError, RangeError */
  constructor(options: GuestThreadsOptions = {}) {
    this.#seating = new Seating(options);
    keepSeating(this, this.#seating);
  }

  get threads(): readonly ThreadState[] {
    return this.#seating.threads;
  }

  /** Ends every thread; guests that are still there are lost. */
  close(): Promise<void> {
    return this.#seating.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
