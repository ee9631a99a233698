import type { RandomSource } from '../base/timing.ts';

/** What the cache needs from the world. */
export interface RegistryEnvironment extends RandomSource {
  /** On the wall. */
  now(): number;
  /** Since some moment; never set back. May stand still while the machine sleeps. */
  monotonic(): number;
  /** Calls back once after `delayMs`; the returned function cancels it. */
  setTimer(callback: () => void, delayMs: number): () => void;
}

/** Its timers keep the process alive: whoever starts a cache closes it. */
export const systemEnvironment: RegistryEnvironment = {
  now: Date.now,
  monotonic: () => performance.now(),
  random: Math.random,
  setTimer(callback, delayMs) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};
