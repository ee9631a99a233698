// Measures the guarded ratios once, in a process of its own: what V8 makes of the code differs from process to process.
// `figures-process.ts [CALL=PERCENT]` slows one hostcall down; the figures go to the parent.

import { interleave, type Side } from '../measure/rounds.ts';
import { quantile } from '../measure/statistics.ts';
import { type HostcallCase, openHostcallBench, sidesOf } from '../topics/hostcall-cases.ts';
import { openWaitingBench } from '../topics/waiting.ts';
import { parseSlowDown, type SlowDown, withExtraWork } from './slow-down.ts';

/** Nanoseconds of one call, of the hostcall and of its yardstick. */
export interface Costs {
  readonly ours: number;
  readonly yardstick: number;
}

/** By the name of the guarded figure. */
export type Figures = Readonly<Record<string, Costs>>;

const CALLS_PER_SAMPLE = 200;
const ROUNDS = { rounds: 121, warmUp: 120 };
const TRIAL_TURNS = 200;
/** Noise only ever adds time: of many samples the low ones are nearest to the truth. */
const LOW = 0.1;

async function costsOf(cases: readonly HostcallCase[], contests: readonly (readonly Side[])[]): Promise<Figures> {
  const samples = await interleave(contests, ROUNDS);
  return Object.fromEntries(
    cases.map(({ name }, index) => {
      const [yardstick = [], ours = []] = samples[index] ?? [];
      return [name, { ours: quantile(ours, LOW), yardstick: quantile(yardstick, LOW) }];
    }),
  );
}

type Bench = Awaited<ReturnType<typeof openHostcallBench>>;

const costsOfCalls = (bench: Bench): Promise<Figures> => {
  const cases = [...bench.local, ...bench.others];
  return costsOf(
    cases,
    cases.map((one) => sidesOf(bench.guest, one, CALLS_PER_SAMPLE)),
  );
};

/** Nanoseconds of one hostcall among all the others, with so much extra work behind it. */
async function costOf(call: string, turns: number | null): Promise<number> {
  const tamper = (imports: Record<string, unknown>) => withExtraWork(imports, call, turns ?? 0);
  const bench = await openHostcallBench(turns === null ? {} : { tamper });
  const one = [...bench.local, ...bench.others].find((candidate) => candidate.call === call);
  if (!one) throw new Error(`no guarded figure calls ${call}`);
  const figures = await costsOfCalls(bench);
  await bench.guest.close();
  return (figures[one.name] as Costs).ours;
}

/** How much work makes the call slower by the percentage: what it costs is linear in the work. */
async function turnsFor({ call, percent }: SlowDown): Promise<number> {
  const plain = await costOf(call, null);
  const [none, some] = [await costOf(call, 0), await costOf(call, TRIAL_TURNS)];
  const wanted = plain * (1 + percent / 100);
  return Math.max(0, Math.round(((wanted - none) / (some - none)) * TRIAL_TURNS));
}

const given = process.argv[2];
const slowDown = given === undefined ? null : parseSlowDown(given);
const turns = slowDown === null ? 0 : await turnsFor(slowDown);
const bench = await openHostcallBench(
  slowDown === null ? {} : { tamper: (imports) => withExtraWork(imports, slowDown.call, turns) },
);
const calls = await costsOfCalls(bench);
await bench.guest.close();
const waiting = await openWaitingBench();
const waits = await costsOf(waiting.cases, waiting.contests(CALLS_PER_SAMPLE));
await waiting.close();
process.send?.({ ...calls, ...waits }, undefined, {}, () => process.exit());
