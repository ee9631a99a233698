import type { Chance } from '../../../durable/guest/chance.ts';
import { trapGuest } from '../../uncatchable.ts';

const MAX_TIMER_MS = 2_147_483_647;
const NS_PER_MS = 1_000_000n;

/** Something that becomes ready. `watch` calls back once it may be, until the function that it gives is called. */
export interface Readiness {
  readonly isReady: () => boolean;
  readonly watch: (wake: () => void) => () => void;
}

/** Gives a wait back as one that also ends with the guest. */
export type Hold = <T>(wait: Promise<T>) => Promise<T>;

/** `wasi:io/poll`. Waiting suspends the guest, never the thread. */
export class Pollable {
  readonly #readiness: Readiness;
  readonly #hold: Hold;

  constructor(readiness: Readiness, hold: Hold = (wait) => wait) {
    this.#readiness = readiness;
    this.#hold = hold;
  }

  ready(): boolean {
    return this.#readiness.isReady();
  }

  async block(): Promise<void> {
    await this.#hold(untilAny([this.#readiness]));
  }

  static async poll(pollables: readonly Pollable[]): Promise<Uint32Array> {
    const [first] = pollables;
    if (first === undefined) return trapGuest('wasi:io/poll was called with an empty list');
    return first.#hold(untilAny(pollables.map((pollable) => pollable.#readiness)));
  }
}

export const alwaysReady: Readiness = { isReady: () => true, watch: () => () => {} };

/** `deadline` in nanoseconds of the monotonic clock. */
export function readyAt(deadline: bigint, chance: Chance): Readiness {
  return {
    isReady: () => chance.monotonicNs() >= deadline,
    watch(wake) {
      const ms = Number((deadline - chance.monotonicNs() + NS_PER_MS - 1n) / NS_PER_MS);
      return chance.after(Math.min(Math.max(ms, 0), MAX_TIMER_MS), wake);
    },
  };
}

/**
 * The places of those that are ready, in their order. The event loop gets a turn even if some are ready at once: a guest
 * that polls would starve it, and never see the rest become ready.
 */
async function untilAny(all: readonly Readiness[]): Promise<Uint32Array> {
  await new Promise((resolve) => setImmediate(resolve));
  for (;;) {
    const ready = all.flatMap(({ isReady }, index) => (isReady() ? [index] : []));
    if (ready.length > 0) return Uint32Array.from(ready);
    await anyChange(all);
  }
}

async function anyChange(all: readonly Readiness[]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stops = all.map(({ watch }) => watch(resolve));
  await promise;
  for (const stop of stops) stop();
}
