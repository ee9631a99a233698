import { interleave } from '../measure/rounds.ts';
import { goal, rowFrom } from '../measure/row.ts';
import { openHostcallBench, sidesOf } from './hostcall-cases.ts';
import type { Topic } from './topic.ts';

const CALLS_PER_SAMPLE = 200;
const WARM_UP_ROUNDS = 150;

/** Local hostcalls from a core module, each beside what it cannot do without. */
export const topic: Topic = async (effort) => {
  const { guest, local, others } = await openHostcallBench();
  try {
    const cases = [...local, ...others];
    const contests = cases.map((one) => sidesOf(guest, one, CALLS_PER_SAMPLE));
    const samples = await interleave(contests, { rounds: effort.of(101, 1_001), warmUp: WARM_UP_ROUNDS });
    return cases.map(({ name, bare, cause = '' }, index) => {
      const [yardstick = [], ours = []] = samples[index] ?? [];
      const wanted = index < local.length ? goal.ratioAtMost(1.5) : null;
      return rowFrom(
        { topic: 'hostcalls', name, unit: 'ns', yardstickName: bare, goal: wanted, cause },
        ours,
        yardstick,
      );
    });
  } finally {
    await guest.close();
  }
};
