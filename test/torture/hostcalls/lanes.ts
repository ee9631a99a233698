import fc from 'fast-check';
import { makeFlatCalls } from '../../runtime/guest/component/checked-flat-calls.ts';
import { flatFastLane } from '../../runtime/guest/component/flat-fast-lane.ts';
import { flatGlueLane } from '../../runtime/guest/component/flat-glue-lane.ts';
import { type RandomFlatCall, randomFlatCall } from '../../runtime/guest/component/random-flat-calls.ts';
import { makeCalls } from '../../runtime/guest/core/checked-calls.ts';
import { type RandomCall, randomCall } from '../../runtime/guest/core/random-calls.ts';
import type { TestGuestOptions } from '../../support/test-guest.ts';

/** How one call ended. */
export type Ending = 'ok' | 'errno' | 'trap';

/** A way for guests to call the host. */
export interface Lane {
  readonly what: string;
  /** Calls of a short run and of a full one, fewer where a call takes longer. */
  readonly calls: readonly [short: number, full: number];
  /** Whether calls of this lane can trap: those of a core module never do. */
  readonly traps: boolean;
  /** Makes so many calls in a guest of their own, the same for the same seed. */
  run(seed: number, calls: number, mcp: TestGuestOptions['mcp'], made: (ending: Ending) => void): Promise<void>;
}

const sample = <T>(arbitrary: fc.Arbitrary<T>, seed: number, numRuns: number): T[] =>
  fc.sample(arbitrary, { seed, numRuns });

const core: Lane = {
  what: 'calls of a core module',
  calls: [15_000, 600_000],
  traps: false,
  async run(seed, calls, mcp, made) {
    const random: RandomCall[] = sample(randomCall, seed, calls);
    await makeCalls(random, (_name, result) => made(result < 0 ? 'errno' : 'ok'), mcp ? { mcp } : {});
  },
};

async function component(
  what: string,
  calls: readonly [number, number],
  open: () => ReturnType<typeof flatFastLane>,
): Promise<Lane> {
  const lane = await open();
  return {
    what,
    calls,
    traps: true,
    async run(seed, count, mcp, made) {
      const random: RandomFlatCall[] = sample(randomFlatCall, seed, count);
      const told = (_name: string, outcome: Ending | 'direct') => made(outcome === 'direct' ? 'ok' : outcome);
      await makeFlatCalls(lane, random, told, mcp ? { mcp } : {});
    },
  };
}

export const openLanes = async (): Promise<Lane[]> => [
  core,
  await component('calls of a component in the fast lane', [8_000, 300_000], flatFastLane),
  await component('calls of a component through jco’s code', [2_500, 100_000], flatGlueLane),
];
