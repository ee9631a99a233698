import { GuestScheduler, schedulers } from './guest-scheduler.ts';
import type { GuestThreadsOptions, ThreadState } from './threads-options.ts';

export type { GuestThreadsOptions, ThreadState } from './threads-options.ts';

/**
 * A few threads that guests share, many on each. A thread has guests of one namespace. If a guest does not yield within
 * `limits.turn_ms`, its thread is terminated: the run of every guest on it ends with the reason `lost`, and the module
 * that blocked the thread is quarantined.
 */
export class GuestThreads implements AsyncDisposable {
  readonly #scheduler: GuestScheduler;

  /** @throws ConfigError, RangeError */
  constructor(options: GuestThreadsOptions = {}) {
    this.#scheduler = new GuestScheduler(options);
    schedulers.set(this, this.#scheduler);
  }

  get threads(): readonly ThreadState[] {
    return this.#scheduler.threads;
  }

  /** Ends every thread; runs of guests that are still on one end with the reason `lost`. */
  close(): Promise<void> {
    return this.#scheduler.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
