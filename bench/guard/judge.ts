import { environment } from '../report/environment.ts';
import { type Baseline, machineOf } from './baseline.ts';
import { type Compared, compare, ratiosOf, toleranceFor, yardsticksOf } from './compare.ts';
import { type FigureGroup, figureGroups, groupOf } from './figure-groups.ts';
import { measure, PROCESSES } from './measure.ts';
import type { Plant } from './slow-down.ts';

/** Of a measurement that looks like a regression. */
const REPETITIONS = 4;
/** What is so many tolerances above its baseline, twice, is no chance: it is not measured again. */
const FAR = 3;

export interface Checked {
  /** The last word. */
  readonly compared: Compared[];
  /** After each measurement. */
  readonly shown: readonly Compared[][];
  readonly tolerance: number;
}

/** Measures until nothing looks like a regression, or until it has looked like one often enough. */
export async function check(
  baseline: Baseline,
  plant: Plant,
  groups: readonly FigureGroup[] = figureGroups,
): Promise<Checked> {
  const ratios = Object.fromEntries(
    Object.entries(baseline.ratios).filter(([figure]) => groups.includes(groupOf(figure))),
  );
  const runs = await measure(PROCESSES, plant, groups);
  const judge = () => {
    const { cpu, v8 } = environment('full');
    const tolerance = toleranceFor(machineOf(baseline), { cpu, v8, yardstickNs: yardsticksOf(runs) });
    return { tolerance, compared: compare(ratios, ratiosOf(runs), tolerance) };
  };
  let judged = judge();
  const shown = [judged.compared];
  for (let again = 0; again < REPETITIONS; again++) {
    const slower = new Set(
      judged.compared.filter(({ verdict }) => verdict === 'slower').map(({ name }) => groupOf(name)),
    );
    if (slower.size === 0 || (again > 0 && isFar(judged))) break;
    runs.push(...(await measure(PROCESSES, plant, [...slower])));
    judged = judge();
    shown.push(judged.compared);
  }
  return { ...judged, shown };
}

function isFar({
  compared,
  tolerance,
}: {
  readonly compared: readonly Compared[];
  readonly tolerance: number;
}): boolean {
  const bound = 1 + FAR * (tolerance - 1);
  const slower = compared.filter(({ verdict }) => verdict === 'slower');
  return slower.every(({ baseline, measured }) => Number(measured) > Number(baseline) * bound);
}
