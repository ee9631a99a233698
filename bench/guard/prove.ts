// Shows what the guard is good for, once, on a quiet machine: that it lets unchanged code pass and notices each slow-down.
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { type Baseline, measureBaseline } from './baseline.ts';
import { type Compared, isProblem } from './compare.ts';
import type { FigureGroup } from './figure-groups.ts';
import { check } from './judge.ts';
import { findPlant } from './measure.ts';
import { DEFAULT_PERCENT, type Plant } from './slow-down.ts';

const UNCHANGED_RUNS = 20;
const PLANTED_RUNS = 10;
/** Of the planted runs, for every figure. */
const MUST_CATCH = 9;

/** What happened to one figure in one run. */
interface Seen {
  /** Called slower after every measurement: the check of this figure alone would have failed. */
  readonly caught: boolean;
  /** Its ratio beside the baseline's, in the last measurement. */
  readonly slowerBy: number;
}

/** A line of the file that keeps what was shown so far. */
type QueueKey =
  | { readonly kind: 'baseline'; readonly baseline: Baseline }
  | { readonly kind: 'plant'; readonly plant: Plant }
  | { readonly kind: 'unchanged'; readonly failed: readonly string[] }
  | { readonly kind: 'planted'; readonly figures: Readonly<Record<string, Seen>> };

/** Goes on where the file ends, so it may be interrupted. 0 where everything was shown. */
export async function prove(file: string, groups: readonly FigureGroup[]): Promise<number> {
  const lines = readLines(file);
  let since = performance.now();
  const add = (line: QueueKey, text: string) => {
    lines.push(line);
    appendFileSync(file, `${JSON.stringify(line)}\n`);
    console.log(`${text} (${((performance.now() - since) / 1_000).toFixed(0)} s)`);
    since = performance.now();
  };
  const count = (kind: QueueKey['kind']) => lines.filter((line) => line.kind === kind).length;
  if (count('baseline') === 0)
    add({ kind: 'baseline', baseline: await measureBaseline(groups) }, 'measured the baseline');
  const first = lines.find((line) => line.kind === 'baseline');
  if (first === undefined) throw new Error(`${file} has no baseline: delete the file and start again`);
  const { baseline } = first;

  while (count('unchanged') < UNCHANGED_RUNS) {
    const failed = (await check(baseline, {}, groups)).compared.filter(isProblem).map(({ name }) => name);
    const at = `unchanged ${count('unchanged') + 1}/${UNCHANGED_RUNS}`;
    add({ kind: 'unchanged', failed }, `${at}: ${failed.length === 0 ? 'passed' : `failed: ${failed.join(', ')}`}`);
  }
  // All at once: each figure has a slow-down of its own, and is judged by itself.
  if (count('plant') === 0) {
    const plant = await findPlant(baseline.ratios, DEFAULT_PERCENT, groups);
    add({ kind: 'plant', plant }, 'found the slow-downs');
  }
  const plant = lines.find((line) => line.kind === 'plant')?.plant ?? {};
  while (count('planted') < PLANTED_RUNS) {
    const figures = seenIn((await check(baseline, plant, groups)).shown);
    const missed = Object.keys(figures).filter((name) => figures[name]?.caught !== true);
    const at = `slower by ${DEFAULT_PERCENT} % ${count('planted') + 1}/${PLANTED_RUNS}`;
    add({ kind: 'planted', figures }, `${at}: ${missed.length === 0 ? 'all caught' : `missed: ${missed.join(', ')}`}`);
  }
  return report(lines, Object.keys(baseline.ratios));
}

function seenIn(shown: readonly Compared[][]): Record<string, Seen> {
  const last = shown.at(-1) ?? [];
  return Object.fromEntries(
    last.map(({ name, baseline, measured }, index) => {
      const caught = shown.every((compared) => compared[index]?.verdict === 'slower');
      return [name, { caught, slowerBy: Number(measured) / Number(baseline) - 1 }];
    }),
  );
}

/** A table for the documentation. */
function report(lines: readonly QueueKey[], names: readonly string[]): number {
  const unchanged = lines.filter((line) => line.kind === 'unchanged');
  const planted = lines.filter((line) => line.kind === 'planted');
  const rows = names.map((name) => {
    const seen = planted.flatMap(({ figures }) => figures[name] ?? []);
    const by = seen.map(({ slowerBy: share }) => Math.round(share * 100));
    const caught = seen.filter((one) => one.caught).length;
    const passed = unchanged.filter(({ failed }) => !failed.includes(name)).length;
    return { name, passed, caught, by: `${Math.min(...by)}–${Math.max(...by)} %` };
  });
  console.log('\n| figure | unchanged, passed | slower by | caught |\n|---|---|---|---|');
  for (const { name, passed, caught, by } of rows) {
    console.log(`| ${name} | ${passed} of ${unchanged.length} | ${by} | ${caught} of ${planted.length} |`);
  }
  const passedRuns = unchanged.filter(({ failed }) => failed.length === 0).length;
  const missed = rows.filter(({ caught }) => caught < MUST_CATCH).map(({ name }) => name);
  console.log(`\nunchanged code passed ${passedRuns} of ${unchanged.length} runs`);
  if (missed.length > 0)
    console.log(`caught in fewer than ${MUST_CATCH} of ${planted.length} runs: ${missed.join(', ')}`);
  return missed.length === 0 && passedRuns === unchanged.length ? 0 : 1;
}

function readLines(file: string): QueueKey[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as QueueKey);
}
