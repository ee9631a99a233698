import type { RetryTiming } from '../../../../src/agent/chat/backends/failures.ts';
import { aFewTurns } from './provider-server.ts';

export const FAKE_NOW = Date.UTC(2026, 0, 1);

/** A fake clock: waits take no time and are written down. */
export class FakeTiming implements RetryTiming {
  readonly slept: number[] = [];
  now = () => FAKE_NOW;
  random = () => 0;
  sleep = async (ms: number, signal: AbortSignal) => {
    signal.throwIfAborted();
    this.slept.push(ms);
    await aFewTurns();
  };
}

/** A fake clock whose waits never end by themselves. */
export class FrozenTiming implements RetryTiming {
  readonly #asleep = Promise.withResolvers<void>();
  readonly asleep = this.#asleep.promise;
  now = () => FAKE_NOW;
  random = () => 0;
  sleep = (_ms: number, signal: AbortSignal) => {
    this.#asleep.resolve();
    return new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  };
}
