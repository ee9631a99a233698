import { groupOf } from './figure-groups.ts';

/** Nanoseconds of one call, of ours and of its yardstick. */
export interface Costs {
  readonly ours: number;
  readonly yardstick: number;
}

/** By the name of the guarded figure. */
export type Figures = Readonly<Record<string, Costs>>;

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

/** The same of whole processes: whoever else is busy empties their caches, and a machine that runs tests is busy. */
export const PROCESS_TOLERANCE = 1.2;

/**
 * The same on another machine than the baseline's, where parts of the processor weigh differently: only what is far off
 * can be told from that.
 */
export const FOREIGN_TOLERANCE = 1.6;

/** How far the yardsticks of the same machine are apart at most, in time: it may be disturbed. */
const SAME_SPEED = 1.35;

/**
 * How far yardsticks of the same machine are from the others at most, beside then. Disturbance slows all of them alike, or
 * one of them; another cache, memory or clock slows some.
 */
const SAME_SHAPE = 1.2;
const MAY_BE_DISTURBED = 0.1;

/** What tells whether a baseline is of this machine: names alone do not, one name stands for many processors. */
export interface Machine {
  readonly cpu: string;
  readonly v8: string;
  /** What each yardstick takes, by figure. */
  readonly yardstickNs: Ratios;
}

export const isNamedAlike = (then: Machine, now: Machine): boolean => then.cpu === now.cpu && then.v8 === now.v8;

export function toleranceFor(then: Machine, now: Machine): number {
  return isNamedAlike(then, now) && areAlike(then.yardstickNs, now.yardstickNs) ? TOLERANCE : FOREIGN_TOLERANCE;
}

function areAlike(then: Ratios, now: Ratios): boolean {
  const apart = Object.entries(now).flatMap(([figure, ns]) => {
    const before = then[figure];
    return before === undefined ? [] : [Math.log(ns / before)];
  });
  if (apart.length === 0) return true; // nothing was measured that could tell
  const typical = apart.reduce((sum, each) => sum + each, 0) / apart.length;
  const off = apart.filter((each) => Math.abs(each - typical) > Math.log(SAME_SHAPE));
  return Math.abs(typical) <= Math.log(SAME_SPEED) && off.length <= apart.length * MAY_BE_DISTURBED;
}

export const isProblem = ({ verdict }: Compared): boolean =>
  verdict === 'slower' || verdict === 'new' || verdict === 'gone';

export function compare(baseline: Ratios, measured: Ratios, tolerance = TOLERANCE): Compared[] {
  const names = [...new Set([...Object.keys(baseline), ...Object.keys(measured)])];
  return names.map((name) => {
    const [before = null, now = null] = [baseline[name], measured[name]];
    return { name, baseline: before, measured: now, verdict: verdictOf(before, now, toleranceOf(name, tolerance)) };
  });
}

const toleranceOf = (name: string, tolerance: number): number =>
  groupOf(name) === 'processor' ? Math.max(tolerance, PROCESS_TOLERANCE) : tolerance;

function verdictOf(before: number | null, now: number | null, tolerance: number): Verdict {
  if (before === null) return 'new';
  if (now === null) return 'gone';
  if (now > before * tolerance) return 'slower';
  return now * tolerance < before ? 'faster' : 'ok';
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

/**
 * The best of each yardstick over several processes, by figure. Those of hostcalls: what whole processes take of the
 * processor says how busy the machine is, not which it is.
 */
export function yardsticksOf(runs: readonly Figures[]): Ratios {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run)))].filter((name) => groupOf(name) === 'hostcalls');
  const least = (name: string) => Math.min(...runs.flatMap((run) => run[name]?.yardstick ?? []));
  return Object.fromEntries(names.map((name) => [name, least(name)]));
}
