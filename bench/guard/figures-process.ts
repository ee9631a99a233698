// Measures the guarded ratios once, in a process of its own: what V8 makes of the code differs from process to process.
// `figures-process.ts [FIGURE RATIO]` makes the hostcall of one figure so slow; the figures go to the parent.
import { interleave, type Side } from '../measure/rounds.ts';
import { quantile } from '../measure/statistics.ts';
import { type HostcallCase, openHostcallBench, sidesOf } from '../topics/hostcall-cases.ts';
import { openWaitingBench } from '../topics/waiting.ts';
import { type ExtraWork, findWork, withExtraWork } from './slow-down.ts';

/** Nanoseconds of one call, of the hostcall and of its yardstick. */
export interface Costs {
  readonly ours: number;
  readonly yardstick: number;
}

/** By the name of the guarded figure. */
export type Figures = Readonly<Record<string, Costs>>;

const CALLS_PER_SAMPLE = 200;
const ROUNDS = { rounds: 121, warmUp: 120 };
const TRIAL_ROUNDS = { rounds: 41, warmUp: 5 };
/** Noise only ever adds time: of many samples the low ones are nearest to the truth. */
const LOW = 0.1;

/** What it costs is the system's to say: its generator is asked every so often, and numbers of 64 bits are garbage. */
const UNGUARDED: readonly string[] = ['random_i64'];

async function costsOf(
  cases: readonly HostcallCase[],
  contests: readonly (readonly Side[])[],
  rounds = ROUNDS,
): Promise<Figures> {
  const samples = await interleave(contests, rounds);
  return Object.fromEntries(
    cases.map(({ name }, index) => {
      const [yardstick = [], ours = []] = samples[index] ?? [];
      return [name, { ours: quantile(ours, LOW), yardstick: quantile(yardstick, LOW) }];
    }),
  );
}

const [slowFigure, wantedRatio] = process.argv.slice(2);
const slowCall = slowFigure?.split(' ')[0];
const work: ExtraWork = { turns: 0 };
const tamper = (imports: Record<string, unknown>) =>
  slowCall === undefined ? imports : withExtraWork(imports, slowCall, work);
const bench = await openHostcallBench({ tamper });
const cases = [...bench.local, ...bench.others].filter(({ name }) => !UNGUARDED.includes(name));
const contests = cases.map((one) => sidesOf(bench.guest, one, CALLS_PER_SAMPLE));
if (slowFigure !== undefined) {
  // Among all the others: alone, a call is compiled differently and costs something else.
  await interleave(contests, ROUNDS);
  await findWork(work, Number(wantedRatio), async () => {
    const { ours, yardstick } = (await costsOf(cases, contests, TRIAL_ROUNDS))[slowFigure] as Costs;
    return ours / yardstick;
  });
}
const calls = await costsOf(cases, contests);
await bench.guest.close();
const waiting = await openWaitingBench();
const waits = await costsOf(waiting.cases, waiting.contests(CALLS_PER_SAMPLE));
await waiting.close();
process.send?.({ ...calls, ...waits }, undefined, {}, () => process.exit());
