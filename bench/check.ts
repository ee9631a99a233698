// Guards what calls cost: compares their ratios with a committed baseline and fails on a regression.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ACCEPTED_PROCESSES, baselineFor, measureBaseline, readBaseline } from './guard/baseline.ts';
import {
  type Compared,
  FOREIGN_TOLERANCE,
  isProblem,
  PROCESS_TOLERANCE,
  ratiosOf,
  TOLERANCE,
} from './guard/compare.ts';
import { type FigureGroup, figureGroups } from './guard/figure-groups.ts';
import { check } from './guard/judge.ts';
import { findPlant, measure, PROCESSES } from './guard/measure.ts';
import { prove } from './guard/prove.ts';
import { callOf, type Plant, parseSlowDown, type SlowDown } from './guard/slow-down.ts';
import { warnOfOldBuild } from './guests/built.ts';
import { environment } from './report/environment.ts';

const usage = `Usage: npm run bench:check -- [options]

Compares the cost of hostcalls, a governed call and a turn of the tool loop with a baseline: hostcalls by time, the
others by processor time, each as a ratio to a yardstick. A ratio more than ${Math.round((TOLERANCE - 1) * 100)} % above its baseline (by
processor time: ${Math.round((PROCESS_TOLERANCE - 1) * 100)} %) is measured again, in more processes; it fails the check if it stays there. On
another machine than that of the baseline, which is reported, only ratios more than ${Math.round((FOREIGN_TOLERANCE - 1) * 100)} % above it count.

  --accept               writes the measured ratios as the new baseline
  --slow CALL[=PERCENT]  slows one hostcall down (by 30 %), to test the check
  --repeat N             checks N times and reports the results
  --prove FILE           proves that it detects every slow-down of 30 % and passes unchanged code, on a quiet machine;
                         takes about twenty minutes, stores its progress in FILE and resumes from it when run again
  --only GROUP           hostcalls (figures by time) or processor (figures by processor time)
  --baseline FILE        baseline file; default: the file in bench/baselines for this
                         processor, else bench/baselines/default.json
  --help                 this text`;

/** Somebody looks whether it is noticed: about so much is enough. */
const SLOW_CORRECTIONS = 2;

const baselines = fileURLToPath(new URL('./baselines', import.meta.url));

/** Of every figure of that call, measured as it is. */
async function slowerBy({ call, percent }: SlowDown, groups: readonly FigureGroup[]): Promise<Plant> {
  const ratios = Object.entries(ratiosOf(await measure(PROCESSES, {}, groups)));
  const own = ratios.filter(([name]) => callOf(name) === call);
  if (own.length === 0) throw new Error(`--slow ${call}: there is no guarded figure for that hostcall`);
  return findPlant(Object.fromEntries(own), percent, groups, SLOW_CORRECTIONS);
}

const number = (value: number | null) => (value === null ? '–' : value.toFixed(2));

function report(shown: readonly Compared[][]): void {
  const [first = [], ...repeated] = shown;
  const last = repeated.at(-1);
  const heads = ['baseline', 'measured', ...(last ? ['again'] : [])];
  const width = Math.max(...first.map(({ name }) => name.length)) + 2;
  const print = (name: string, cells: readonly string[], word: string) =>
    console.log(`${name.padEnd(width)}${cells.map((cell) => cell.padStart(10)).join('')}  ${word}`.trimEnd());
  print('', heads, '');
  for (const [index, { name, baseline, measured, verdict }] of first.entries()) {
    const again = last?.[index];
    const cells = [number(baseline), number(measured), ...(again ? [number(again.measured)] : [])];
    const word = again?.verdict ?? verdict;
    print(name, cells, word === 'ok' ? '' : word);
  }
}

async function accept(file: string, groups: readonly FigureGroup[]): Promise<number> {
  const baseline = await measureBaseline(groups);
  writeFileSync(file, `${JSON.stringify(baseline, null, 2)}\n`);
  const { length } = Object.keys(baseline.ratios);
  console.log(`${file} holds ${length} ratios, each the best of ${ACCEPTED_PROCESSES} processes`);
  return 0;
}

async function checkAndReport(file: string, plant: Plant, groups: readonly FigureGroup[]): Promise<number> {
  const started = performance.now();
  const { compared, shown, tolerance } = await check(readBaseline(file), plant, groups);
  report(shown);
  if (tolerance !== TOLERANCE) {
    console.log(
      `the baseline is of another machine: only ratios ${Math.round((tolerance - 1) * 100)} % above it count`,
    );
  }
  const problems = compared.filter(isProblem);
  const faster = compared.filter(({ verdict }) => verdict === 'faster').map(({ name }) => name);
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  if (faster.length > 0) console.log(`faster than the baseline; consider --accept: ${faster.join(', ')}`);
  if (problems.length === 0) {
    console.log(`no regression among ${compared.length} ratios (${seconds} s)`);
    return 0;
  }
  for (const { name, verdict, baseline, measured } of problems) {
    console.error(`${name}: ${verdict}, ratio ${number(measured)}, its baseline is ${number(baseline)}`);
  }
  console.error(`${problems.length} of ${compared.length} ratios regressed (${seconds} s).`);
  console.error('If this is intended: run npm run bench:check -- --accept, and commit bench/baselines');
  return 1;
}

async function repeat(times: number, file: string, plant: Plant): Promise<number> {
  const baseline = readBaseline(file);
  const { ratios } = baseline;
  const outcomes: Compared[][] = [];
  for (let round = 1; round <= times; round++) {
    const started = performance.now();
    const { compared, shown } = await check(baseline, plant);
    outcomes.push(compared);
    const failed = compared.filter(isProblem).map(({ name }) => name);
    const seconds = ((performance.now() - started) / 1000).toFixed(0);
    const result = failed.length === 0 ? 'passed' : `failed: ${failed.join(', ')}`;
    console.log(`${round}/${times} ${result} (measured ${shown.length} times, ${seconds} s)`);
  }
  const failures = outcomes.filter((compared) => compared.some(isProblem)).length;
  const worst = Object.keys(ratios).map((name) => {
    const found = outcomes.flatMap((compared) => compared.find((one) => one.name === name)?.measured ?? []);
    return { name, most: Math.max(...found) / (ratios[name] as number) };
  });
  const [largest] = worst.toSorted((a, b) => b.most - a.most);
  console.log(
    `${times - failures} of ${times} passed; furthest above its baseline: ${largest?.name}, × ${number(largest?.most ?? null)}`,
  );
  return failures > 0 ? 1 : 0;
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      accept: { type: 'boolean' },
      slow: { type: 'string' },
      repeat: { type: 'string' },
      prove: { type: 'string' },
      only: { type: 'string' },
      baseline: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    console.log(usage);
    return 0;
  }
  const file = values.baseline ?? baselineFor(environment('full').cpu, baselines);
  const groups = values.only === undefined ? figureGroups : figureGroups.filter((group) => group === values.only);
  if (groups.length === 0)
    throw new Error(`--only ${values.only}: unknown group; known groups: ${figureGroups.join(' and ')}`);
  if (values.accept) return accept(file, groups);
  warnOfOldBuild();
  if (values.prove !== undefined) return prove(values.prove, groups);
  const plant = values.slow === undefined ? {} : await slowerBy(parseSlowDown(values.slow), groups);
  if (values.repeat !== undefined) return repeat(Number(values.repeat), file, plant);
  return checkAndReport(file, plant, groups);
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
