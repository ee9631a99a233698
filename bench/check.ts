// Guards the costs of hostcalls: compares their ratios with bench/baseline.json and fails on a regression.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import {
  type Compared,
  compare,
  FOREIGN_TOLERANCE,
  isProblem,
  type Machine,
  type Ratios,
  ratiosOf,
  TOLERANCE,
  toleranceFor,
  yardsticksNs,
} from './guard/compare.ts';
import type { Figures } from './guard/figures-process.ts';
import { parseSlowDown, type SlowDown } from './guard/slow-down.ts';
import { type Environment, environment } from './report/environment.ts';

const usage = `Usage: npm run bench:check -- [options]

Compares the ratios of the hostcalls with bench/baseline.json. A ratio more than ${Math.round((TOLERANCE - 1) * 100)} % above its baseline is measured
again, in more processes; it fails the check if it stays there. On another machine than the baseline's, which says so,
only what is more than ${Math.round((FOREIGN_TOLERANCE - 1) * 100)} % above it counts.

  --accept             writes what is measured now as the new baseline
  --slow CALL[=PERCENT]  makes one hostcall slower (by 30 %), to see that it is noticed
  --repeat N           checks N times and reports what happened
  --baseline FILE      another file than bench/baseline.json
  --help               this text`;

const program = fileURLToPath(new URL('./guard/figures-process.ts', import.meta.url));
const committed = fileURLToPath(new URL('./baseline.json', import.meta.url));

/** Processes of one measurement, and of each repetition of one that looks like a regression. */
const PROCESSES = 3;
const REPETITIONS = 4;
const ACCEPTED_PROCESSES = 7;
const PROCESS_TIMEOUT_MS = 60_000;

interface Baseline {
  readonly environment: Environment;
  readonly yardsticksNs: number;
  readonly ratios: Ratios;
}

const machine = ({ cpu, v8 }: Environment, yardsticks: number): Machine => ({ cpu, v8, yardsticksNs: yardsticks });

/** The figure whose hostcall is to be slower, and the ratio that it is to have. */
interface Slower {
  readonly figure: string;
  readonly ratio: number;
}

/** Of the cheapest figure of that call, measured as it is. */
async function slowerBy({ call, percent }: SlowDown): Promise<Slower> {
  const ratios = Object.entries(ratiosOf(await measure(PROCESSES, null)));
  const own = ratios.filter(([name]) => name.split(' ')[0] === call);
  const [cheapest] = own.toSorted(([, a], [, b]) => a - b);
  if (!cheapest) throw new Error(`--slow ${call}: no guarded figure is named after that hostcall`);
  const [figure, ratio] = cheapest;
  return { figure, ratio: ratio * (1 + percent / 100) };
}

async function measureOnce(slow: Slower | null): Promise<Figures> {
  const child = fork(program, slow === null ? [] : [slow.figure, String(slow.ratio)]);
  let found: Figures | undefined;
  child.once('message', (message) => {
    found = message as Figures;
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), PROCESS_TIMEOUT_MS);
  const [code] = await once(child, 'exit');
  clearTimeout(timer);
  if (!found) throw new Error(`the measuring process ended with ${code}`);
  return found;
}

async function measure(processes: number, slow: Slower | null): Promise<Figures[]> {
  const runs: Figures[] = [];
  while (runs.length < processes) runs.push(await measureOnce(slow));
  return runs;
}

/** Measures until nothing looks like a regression, or until it has looked like one often enough. */
async function check(
  baseline: Baseline,
  slow: Slower | null,
): Promise<{ compared: Compared[]; shown: Compared[][]; tolerance: number }> {
  const runs = await measure(PROCESSES, slow);
  const then = machine(baseline.environment, baseline.yardsticksNs);
  const judge = () => {
    const tolerance = toleranceFor(then, machine(environment('full'), yardsticksNs(runs)));
    return { tolerance, compared: compare(baseline.ratios, ratiosOf(runs), tolerance) };
  };
  let judged = judge();
  const shown = [judged.compared];
  for (let again = 0; again < REPETITIONS && shown.at(-1)?.some(({ verdict }) => verdict === 'slower'); again++) {
    runs.push(...(await measure(PROCESSES, slow)));
    judged = judge();
    shown.push(judged.compared);
  }
  return { ...judged, shown };
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

function readBaseline(file: string): Baseline {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Baseline;
  } catch (error) {
    throw new Error(`${file}: ${(error as Error).message}; npm run bench:check -- --accept makes one`);
  }
}

async function accept(file: string): Promise<number> {
  const runs = await measure(ACCEPTED_PROCESSES, null);
  const ratios = Object.fromEntries(
    Object.entries(ratiosOf(runs)).map(([name, ratio]) => [name, Number(ratio.toFixed(3))]),
  );
  const baseline: Baseline = {
    environment: environment('full'),
    yardsticksNs: Math.round(yardsticksNs(runs)),
    ratios,
  };
  writeFileSync(file, `${JSON.stringify(baseline, null, 2)}\n`);
  console.log(`${file} holds ${Object.keys(ratios).length} ratios, each the best of ${runs.length} processes`);
  return 0;
}

async function checkAndReport(file: string, slow: Slower | null): Promise<number> {
  const started = performance.now();
  const { compared, shown, tolerance } = await check(readBaseline(file), slow);
  report(shown);
  if (tolerance !== TOLERANCE) {
    console.log(
      `the baseline is of another machine: only what is ${Math.round((tolerance - 1) * 100)} % above it counts here`,
    );
  }
  const problems = compared.filter(isProblem);
  const faster = compared.filter(({ verdict }) => verdict === 'faster').map(({ name }) => name);
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  if (faster.length > 0) console.log(`faster than the baseline, which may be renewed: ${faster.join(', ')}`);
  if (problems.length === 0) {
    console.log(`no regression among ${compared.length} ratios (${seconds} s)`);
    return 0;
  }
  for (const { name, verdict, baseline, measured } of problems) {
    console.error(`${name}: ${verdict}, ratio ${number(measured)}, its baseline is ${number(baseline)}`);
  }
  console.error(`${problems.length} of ${compared.length} ratios are not as they were (${seconds} s).`);
  console.error('If that is meant: npm run bench:check -- --accept, and commit bench/baseline.json');
  return 1;
}

async function repeat(times: number, file: string, slow: Slower | null): Promise<number> {
  const baseline = readBaseline(file);
  const { ratios } = baseline;
  const outcomes: Compared[][] = [];
  for (let round = 1; round <= times; round++) {
    const started = performance.now();
    const { compared, shown } = await check(baseline, slow);
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
      baseline: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    console.log(usage);
    return 0;
  }
  const file = values.baseline ?? committed;
  if (values.accept) return accept(file);
  const slow = values.slow === undefined ? null : await slowerBy(parseSlowDown(values.slow));
  if (values.repeat !== undefined) return repeat(Number(values.repeat), file, slow);
  return checkAndReport(file, slow);
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
