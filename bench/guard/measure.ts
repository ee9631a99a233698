import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { median } from '../measure/statistics.ts';
import { type Figures, type Ratios, ratiosOf } from './compare.ts';
import { type FigureGroup, figureGroups } from './figure-groups.ts';
import type { Plant } from './slow-down.ts';

const program = fileURLToPath(new URL('./figures-process.ts', import.meta.url));

/** Half a minute on a quiet machine, minutes where ten others want its cores. */
const PROCESS_TIMEOUT_MS = 600_000;

/** Finds of the same plant, of which the middle one is taken. */
const FINDS = 3;
/** Then it is measured as every check does it, and corrected, by at most so much at a time, until it has been near twice in a row. */
const MAX_CORRECTIONS = 6;
const NEAR = 0.2;
const NEAR_IN_A_ROW = 2;
const MAX_FACTOR = 3;
const LEAST_ADDED = 0.01;

/** Processes of one measurement, and of each repetition of one that looks like a regression. */
export const PROCESSES = 3;

/** Figures of so many processes, with extra work behind some of them. */
export async function measure(
  processes: number,
  plant: Plant,
  groups: readonly FigureGroup[] = figureGroups,
): Promise<Figures[]> {
  const runs: Figures[] = [];
  while (runs.length < processes) runs.push((await ask('measure', plant, groups)) as Figures);
  return runs;
}

/**
 * The extra work that makes figures slower by so much than they are: found before anything is checked, as a regression is
 * there before. What one process finds is not yet what others make of it, so it is corrected by how it is measured.
 */
export async function findPlant(
  idle: Ratios,
  percent: number,
  groups: readonly FigureGroup[],
  corrections = MAX_CORRECTIONS,
): Promise<Plant> {
  const wanted = Object.fromEntries(Object.entries(idle).map(([name, ratio]) => [name, ratio * (1 + percent / 100)]));
  const found: Plant[] = [];
  while (found.length < FINDS) found.push((await ask('find', wanted)) as Plant);
  let plant: Plant = Object.fromEntries(
    Object.keys(wanted).map((name) => [name, Math.round(median(found.map((one) => one[name] ?? 0)))]),
  );
  const near = new Map(Object.keys(plant).map((name) => [name, 0]));
  for (let again = 0; again < corrections; again++) {
    const planted = ratiosOf(await measure(PROCESSES, plant, groups));
    const corrected = Object.entries(plant).map(([name, work]) => {
      const added = Number(planted[name]) / Number(idle[name]) - 1;
      const factor = percent / 100 / Math.max(added, LEAST_ADDED);
      const isNear = Math.abs(factor - 1) <= NEAR;
      near.set(name, isNear ? (near.get(name) ?? 0) + 1 : 0);
      return [name, isNear ? work : Math.round(work * Math.min(MAX_FACTOR, Math.max(1 / MAX_FACTOR, factor)))];
    });
    plant = Object.fromEntries(corrected);
    if ([...near.values()].every((times) => times >= NEAR_IN_A_ROW)) break;
  }
  return plant;
}

async function ask(
  task: 'measure' | 'find',
  given: Plant | Ratios,
  groups: readonly FigureGroup[] = [],
): Promise<unknown> {
  const child = fork(program, [task, JSON.stringify(given), JSON.stringify(groups)]);
  let found: unknown;
  child.once('message', (message) => {
    found = message;
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), PROCESS_TIMEOUT_MS);
  const [code] = await once(child, 'exit');
  clearTimeout(timer);
  if (found === undefined) throw new Error(`the measuring process ended with ${code}`);
  return found;
}
