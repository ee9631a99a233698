import { environment } from '../report/environment.ts';
import { type Baseline, machineOf } from './baseline.ts';
import { type Compared, compare, isNamedAlike, ratiosOf, TOLERANCE, toleranceFor, yardsticksOf } from './compare.ts';
import { type FigureGroup, figureGroups, groupOf } from './figure-groups.ts';
import { measure, PROCESSES } from './measure.ts';
import type { Plant } from './slow-down.ts';

/** Of a measurement that looks like a regression. */
const REPETITIONS = 4;
/** Of these, for a machine with the right name whose yardsticks are off: a disturbed one is itself again by then. */
const DOUBTS = 2;
/** What is so many tolerances above its baseline, twice, is no chance: it is not measured again. */
const FAR = 1.5;

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
    const now = { cpu, v8, yardstickNs: yardsticksOf(runs) };
    const tolerance = toleranceFor(machineOf(baseline), now);
    const measured = ratiosOf(runs);
    // Whose machine it is matters only where that decides.
    const isDoubtful =
      tolerance !== TOLERANCE &&
      isNamedAlike(machineOf(baseline), now) &&
      compare(ratios, measured).some(({ verdict }) => verdict === 'slower');
    return { tolerance, isDoubtful, compared: compare(ratios, measured, tolerance) };
  };
  let judged = judge();
  const shown = [judged.compared];
  for (let again = 0; again < REPETITIONS; again++) {
    const isInDoubt = judged.isDoubtful && again < DOUBTS;
    const slower = judged.compared.filter(({ verdict }) => verdict === 'slower').map(({ name }) => groupOf(name));
    const measuredAgain = groups.filter((group) => slower.includes(group) || (isInDoubt && group === 'hostcalls'));
    if (measuredAgain.length === 0 || (again > 0 && !isInDoubt && isFar(judged))) break;
    runs.push(...(await measure(PROCESSES, plant, measuredAgain)));
    judged = judge();
    // What was compared while the machine did not look like itself says nothing.
    if (isInDoubt) shown.pop();
    shown.push(judged.compared);
  }
  return { compared: judged.compared, tolerance: judged.tolerance, shown };
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
