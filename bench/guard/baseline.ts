import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Environment, environment } from '../report/environment.ts';
import { type Machine, type Ratios, ratiosOf, yardsticksOf } from './compare.ts';
import { type FigureGroup, figureGroups } from './figure-groups.ts';
import { measure } from './measure.ts';

/** What the guard compares with: the ratios of one machine, and what tells whether this is the same. */
export interface Baseline {
  readonly environment: Environment;
  /** What each yardstick took, by figure. */
  readonly yardstickNs: Ratios;
  readonly ratios: Ratios;
}

export const ACCEPTED_PROCESSES = 7;

export const machineOf = ({ environment: { cpu, v8 }, yardstickNs: typical }: Baseline): Machine => ({
  cpu,
  v8,
  yardstickNs: typical,
});

export function readBaseline(file: string): Baseline {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Baseline;
  } catch (error) {
    throw new Error(`${file}: ${(error as Error).message}; create one with npm run bench:check -- --accept`);
  }
}

/** The file in `folder` that was measured on a processor of that name, else default.json. */
export function baselineFor(cpu: string, folder: string): string {
  const files = readdirSync(folder).sort();
  const own = files.find((name) => readBaseline(join(folder, name)).environment.cpu === cpu);
  return join(folder, own ?? 'default.json');
}

/** What is measured now. */
export async function measureBaseline(groups: readonly FigureGroup[] = figureGroups): Promise<Baseline> {
  const runs = await measure(ACCEPTED_PROCESSES, {}, groups);
  const rounded = (figures: Ratios, digits: number) =>
    Object.fromEntries(Object.entries(figures).map(([name, figure]) => [name, Number(figure.toFixed(digits))]));
  return {
    environment: environment('full'),
    yardstickNs: rounded(yardsticksOf(runs), 1),
    ratios: rounded(ratiosOf(runs), 3),
  };
}
