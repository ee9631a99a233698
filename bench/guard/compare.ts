import type { Figures } from './figures-process.ts';

/** By the name of the guarded figure. */
export type Ratios = Readonly<Record<string, number>>;

export type Verdict = 'ok' | 'slower' | 'faster' | 'new' | 'gone';

export interface Compared {
  readonly name: string;
  readonly baseline: number | null;
  readonly measured: number | null;
  readonly verdict: Verdict;
}

/**
 * How much more than its baseline a ratio may be. Above what is left of the noise when the best of several processes is
 * taken, below the thirty percent that must be noticed.
 */
export const TOLERANCE = 1.15;

export const isProblem = ({ verdict }: Compared): boolean =>
  verdict === 'slower' || verdict === 'new' || verdict === 'gone';

export function compare(baseline: Ratios, measured: Ratios): Compared[] {
  const names = [...new Set([...Object.keys(baseline), ...Object.keys(measured)])];
  return names.map((name) => {
    const [before = null, now = null] = [baseline[name], measured[name]];
    return { name, baseline: before, measured: now, verdict: verdictOf(before, now) };
  });
}

function verdictOf(before: number | null, now: number | null): Verdict {
  if (before === null) return 'new';
  if (now === null) return 'gone';
  if (now > before * TOLERANCE) return 'slower';
  return now * TOLERANCE < before ? 'faster' : 'ok';
}

/**
 * The ratio of the best of each side over several processes. Noise only adds time, to the yardstick as well, so the best
 * of the ratios themselves would be one whose yardstick was disturbed.
 */
export function ratiosOf(runs: readonly Figures[]): Ratios {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run)))];
  const least = (name: string, side: 'ours' | 'yardstick') =>
    Math.min(...runs.map((run) => run[name]?.[side] ?? Number.POSITIVE_INFINITY));
  return Object.fromEntries(names.map((name) => [name, least(name, 'ours') / least(name, 'yardstick')]));
}
