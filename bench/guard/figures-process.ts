// Measures the guarded ratios once, in a process of its own: what V8 makes of the code differs from process to process.
// `figures-process.ts [CALL NS]` makes one hostcall slower by so many nanoseconds; the figures go to the parent.
import { interleave, type Side } from '../measure/rounds.ts';
import { quantile } from '../measure/statistics.ts';
import { type HostcallCase, openHostcallBench, sidesOf } from '../topics/hostcall-cases.ts';
import { openWaitingBench } from '../topics/waiting.ts';
import { turnsFor, withExtraWork } from './slow-down.ts';

/** Nanoseconds of one call, of the hostcall and of its yardstick. */
export interface Costs {
  readonly ours: number;
  readonly yardstick: number;
}

/** By the name of the guarded figure. */
export type Figures = Readonly<Record<string, Costs>>;

const CALLS_PER_SAMPLE = 200;
const ROUNDS = { rounds: 121, warmUp: 120 };
/** Noise only ever adds time: of many samples the low ones are nearest to the truth. */
const LOW = 0.1;

/** What it costs is the system's to say: its generator is asked every so often, and numbers of 64 bits are garbage. */
const UNGUARDED: readonly string[] = ['random_i64'];

async function costsOf(cases: readonly HostcallCase[], contests: readonly (readonly Side[])[]): Promise<Figures> {
  const samples = await interleave(contests, ROUNDS);
  return Object.fromEntries(
    cases.map(({ name }, index) => {
      const [yardstick = [], ours = []] = samples[index] ?? [];
      return [name, { ours: quantile(ours, LOW), yardstick: quantile(yardstick, LOW) }];
    }),
  );
}

const [call, ns] = process.argv.slice(2);
const turns = turnsFor(Number(ns ?? 0));
const tamper = (imports: Record<string, unknown>) =>
  call === undefined ? imports : withExtraWork(imports, call, turns);
const bench = await openHostcallBench({ tamper });
const cases = [...bench.local, ...bench.others].filter(({ name }) => !UNGUARDED.includes(name));
const calls = await costsOf(
  cases,
  cases.map((one) => sidesOf(bench.guest, one, CALLS_PER_SAMPLE)),
);
await bench.guest.close();
const waiting = await openWaitingBench();
const waits = await costsOf(waiting.cases, waiting.contests(CALLS_PER_SAMPLE));
await waiting.close();
process.send?.({ ...calls, ...waits }, undefined, {}, () => process.exit());
