import { setImmediate } from 'node:timers/promises';
import type { RegistryEnvironment } from '../../src/registry-client/lifetime.ts';

interface FakeTimer {
  readonly at: number;
  readonly callback: () => void;
}

/** A clock that only a test advances. */
export class FakeEnvironment implements RegistryEnvironment {
  readonly #timers = new Set<FakeTimer>();
  #now = 1_000_000;
  randomValue = 0;
  /** How far the clock on the wall was set forward or back. */
  wallStepMs = 0;

  now(): number {
    return this.#now + this.wallStepMs;
  }

  monotonic(): number {
    return this.#now;
  }

  random(): number {
    return this.randomValue;
  }

  setTimer(callback: () => void, delayMs: number): () => void {
    const timer = { at: this.#now + delayMs, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  get pendingTimers(): number {
    return this.#timers.size;
  }

  /** Milliseconds until the next timer. */
  get nextIn(): number {
    return Math.min(...[...this.#timers].map((timer) => timer.at)) - this.#now;
  }

  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settled();
    for (;;) {
      const due = [...this.#timers].filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#now = Math.max(this.#now, due.at);
      this.#timers.delete(due);
      due.callback();
      await settled();
    }
    this.#now = end;
  }
}

/** Lets everything run that waits for nothing but other promises. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 3; i++) await setImmediate();
}
