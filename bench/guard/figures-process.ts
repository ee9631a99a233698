// Measures the guarded ratios once, in a process of its own: what V8 makes of the code differs from process to process.
// `figures-process.ts measure PLANT GROUPS` does so for groups of figures, with extra work behind some of them;
// `figures-process.ts find RATIOS` finds the extra work that gives figures these ratios. All of these are JSON; what is
// found goes to the parent.
import { hostcalls } from '../../src/runtime/guest/hostcalls/all.ts';
import { placementProblem, placeOnOneCore } from '../measure/placement.ts';
import { interleave, type Rounds, type Side } from '../measure/rounds.ts';
import { quantile } from '../measure/statistics.ts';
import { openHostcallBench, sidesOf } from '../topics/hostcall-cases.ts';
import { openWaitingBench } from '../topics/waiting.ts';
import { type Costs, type Figures, type Ratios, ratiosOf } from './compare.ts';
import { type FigureGroup, figureGroups } from './figure-groups.ts';
import { findSlowWrites, measureProcessor } from './processor-figures.ts';
import { callOf, type ExtraWork, findWork, type Plant, slowHostcalls } from './slow-down.ts';

type Contest = readonly [yardstick: Side, ours: Side];

const CALLS_PER_SAMPLE = 200;
const ROUNDS = { rounds: 121, warmUp: 120 };
const TRIAL_ROUNDS = { rounds: 41, warmUp: 5 };
/** Noise only ever adds time: of many samples the low ones are nearest to the truth. */
const LOW = 0.1;

/** What it costs is the system's to say: its generator is asked every so often, and numbers of 64 bits are garbage. */
const UNGUARDED: readonly string[] = ['random_i64'];

async function costsOf(names: readonly string[], contests: readonly Contest[], rounds: Rounds): Promise<Figures> {
  const samples = await interleave(contests, rounds);
  return Object.fromEntries(
    names.map((name, index) => {
      const [yardstick = [], ours = []] = samples[index] ?? [];
      return [name, { ours: quantile(ours, LOW), yardstick: quantile(yardstick, LOW) }];
    }),
  );
}

/** The contests of one guest, each with the extra work of its figure. */
function withWork(names: readonly string[], contests: readonly Contest[], plant: Plant, work: ExtraWork): Contest[] {
  return contests.map(([yardstick, ours], index) => {
    const before = async () => {
      work.turns = 0;
      await ours.before?.();
      work.turns = plant[names[index] as string] ?? 0;
    };
    return [yardstick, { ...ours, before }];
  });
}

interface Guest {
  readonly names: readonly string[];
  readonly contests: readonly Contest[];
  close(): Promise<void>;
}

/** One after the other: two at once would be compiled together. */
function guestsOf(slow: readonly string[], work: ExtraWork): readonly (() => Promise<Guest>)[] {
  const table = {
    table: slowHostcalls(
      [...new Set(slow.map(callOf))].filter((call) => call in hostcalls),
      work,
    ),
  };
  const calls = async () => {
    const { guest, local, others } = await openHostcallBench(table);
    const cases = [...local, ...others].filter(({ name }) => !UNGUARDED.includes(name));
    const contests = cases.map((one) => sidesOf(guest, one, CALLS_PER_SAMPLE));
    return { names: cases.map(({ name }) => name), contests, close: () => guest.close() };
  };
  const waits = async () => {
    const { cases, contests, close } = await openWaitingBench(table);
    return { names: cases.map(({ name }) => name), contests: contests(CALLS_PER_SAMPLE), close };
  };
  return [calls, waits];
}

async function measureProcesses(plant: Plant): Promise<Figures> {
  if (placementProblem('one core') === null) placeOnOneCore();
  return measureProcessor(plant);
}

async function measureHostcalls(plant: Plant): Promise<Figures> {
  const work: ExtraWork = { turns: 0 };
  const found: Record<string, Costs> = {};
  for (const open of guestsOf(Object.keys(plant), work)) {
    const { names, contests, close } = await open();
    Object.assign(found, await costsOf(names, withWork(names, contests, plant, work), ROUNDS));
    await close();
  }
  return found;
}

async function findPlant(wanted: Ratios): Promise<Plant> {
  const work: ExtraWork = { turns: 0 };
  const plant: Record<string, number> = {};
  for (const open of guestsOf(Object.keys(wanted), work)) {
    const { names, contests, close } = await open();
    const own = Object.fromEntries(Object.entries(wanted).filter(([name]) => names.includes(name)));
    const turns: Record<string, number> = {};
    const slower = withWork(names, contests, turns, work);
    // Among all the others: alone, a call is compiled differently and costs something else.
    if (Object.keys(own).length > 0) await interleave(slower, ROUNDS);
    await findWork(own, turns, async () => ratiosOf([await costsOf(names, slower, TRIAL_ROUNDS)]));
    Object.assign(plant, turns);
    await close();
  }
  if (placementProblem('one core') === null) placeOnOneCore();
  return { ...plant, ...(await findSlowWrites(wanted)) };
}

const measured: Readonly<Record<FigureGroup, (plant: Plant) => Promise<Figures>>> = {
  hostcalls: measureHostcalls,
  processor: measureProcesses,
};

async function measure(plant: Plant, groups: readonly FigureGroup[]): Promise<Figures> {
  const found: Record<string, Costs> = {};
  for (const group of figureGroups) if (groups.includes(group)) Object.assign(found, await measured[group](plant));
  return found;
}

const [task, given = '{}', groups = '[]'] = process.argv.slice(2);
const result = await (task === 'find' ? findPlant(JSON.parse(given)) : measure(JSON.parse(given), JSON.parse(groups)));
process.send?.(result, undefined, {}, () => process.exit());
