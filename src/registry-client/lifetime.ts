import type { RandomSource } from '../base/timing.ts';

/** Owns every timer and every call in flight, so that one `end` stops all of them. */
export class Lifetime {
  readonly #environment: RegistryEnvironment;
  readonly #calls = new Set<AbortController>();
  readonly #timers = new Set<() => void>();
  #ended = false;

  constructor(environment: RegistryEnvironment) {
    this.#environment = environment;
  }

  get ended(): boolean {
    return this.#ended;
  }

  end(reason: Error): void {
    this.#ended = true;
    for (const call of this.#calls) call.abort(reason);
    for (const cancel of this.#timers) cancel();
  }

  /** Runs `call` with a signal that aborts when the lifetime ends. */
  async during<T>(call: (scope: AbortController) => Promise<T>): Promise<T> {
    const scope = new AbortController();
    if (this.#ended) scope.abort(new Error('already ended'));
    this.#calls.add(scope);
    try {
      return await call(scope);
    } finally {
      this.#calls.delete(scope);
    }
  }

  after(delayMs: number, callback: () => void): () => void {
    const cancelTimer = this.#environment.setTimer(() => {
      this.#timers.delete(cancel);
      callback();
    }, delayMs);
    const cancel = () => {
      this.#timers.delete(cancel);
      cancelTimer();
    };
    this.#timers.add(cancel);
    return cancel;
  }

  /** Waits `delayMs`, or less when the lifetime ends. */
  pause(delayMs: number): Promise<void> {
    return this.during(
      ({ signal }) =>
        new Promise((resolve) => {
          if (signal.aborted) return resolve();
          const cancel = this.after(delayMs, resolve);
          signal.addEventListener('abort', () => {
            cancel();
            resolve();
          });
        }),
    );
  }
}

/** Clocks, timers and randomness of the cache; tests inject their own. */
export interface RegistryEnvironment extends RandomSource {
  /** Wall clock. */
  now(): number;
  /** Monotonic clock. May stop while the machine sleeps. */
  monotonic(): number;
  /** Calls back once after `delayMs`; the returned function cancels it. */
  setTimer(callback: () => void, delayMs: number): () => void;
}

/** Its timers keep the process alive, so the owner of a cache must close it. */
export const systemEnvironment: RegistryEnvironment = {
  now: Date.now,
  monotonic: () => performance.now(),
  random: Math.random,
  setTimer(callback, delayMs) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};
