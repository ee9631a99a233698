import { median, medianInterval, p99 } from './statistics.ts';

export type Unit = 'ns' | 'µs' | 'ms' | 'KiB' | 'MiB' | 'MiB·s' | 'definitions' | 'tokens' | 'questions';

/** One figure of the bench. Everything that could not be measured is null, and `note` says why. */
export interface Row {
  readonly topic: string;
  readonly name: string;
  readonly unit: Unit;
  readonly median: number | null;
  readonly p99: number | null;
  /** The median of what it is compared with, in the same unit. */
  readonly yardstick: number | null;
  readonly yardstickName: string;
  /** The median of the ratios of the rounds. */
  readonly ratio: number | null;
  /** 95 % confidence interval of the ratio. */
  readonly ratioLow: number | null;
  readonly ratioHigh: number | null;
  /** Null: published, without a goal. */
  readonly goal: string | null;
  /** Null where there is no goal, or nothing was measured. */
  readonly ok: boolean | null;
  readonly note: string;
}

export interface Measured {
  readonly median: number;
  readonly p99: number;
  readonly yardstick: number;
  readonly ratio: number;
}

/** What a figure should be: as text for people, and as a check. */
export interface Goal {
  readonly text: string;
  readonly met: (measured: Measured) => boolean;
}

export const goal = {
  ratioAtMost: (limit: number): Goal => ({ text: `ratio ≤ ${limit}`, met: ({ ratio }) => ratio <= limit }),
  ratioAtLeast: (limit: number): Goal => ({ text: `ratio ≥ ${limit}`, met: ({ ratio }) => ratio >= limit }),
  addedAtMost: (limit: number, unit: Unit): Goal => ({
    text: `added ≤ ${limit} ${unit}`,
    met: ({ median: ours, yardstick }) => ours - yardstick <= limit,
  }),
  medianAtMost: (limit: number, unit: Unit): Goal => ({
    text: `≤ ${limit} ${unit}`,
    met: ({ median: ours }) => ours <= limit,
  }),
  p99AtMost: (limit: number, unit: Unit): Goal => ({
    text: `p99 ≤ ${limit} ${unit}`,
    met: ({ p99: slowest }) => slowest <= limit,
  }),
};

export interface RowText {
  readonly topic: string;
  readonly name: string;
  readonly unit: Unit;
  readonly yardstickName: string;
  readonly goal: Goal | null;
  readonly note?: string;
  /** Where the time goes, if the goal is missed. */
  readonly cause?: string;
}

/** Samples of one round stand at the same place in both lists. */
export function rowFrom(text: RowText, ours: readonly number[], yardstick: readonly number[]): Row {
  const ratios = ours.map((value, round) => value / (yardstick[round] ?? Number.NaN));
  return rowWithRatios(text, { ours, yardstick, ratios });
}

/** For rounds of many samples each: the ratios are of the rounds, median and p99 of all samples. */
export function rowWithRatios(
  { goal: wanted, note = '', cause = '', ...text }: RowText,
  samples: {
    readonly ours: readonly number[];
    readonly yardstick: readonly number[];
    readonly ratios: readonly number[];
  },
): Row {
  const { ours, yardstick, ratios } = samples;
  const measured = { median: median(ours), p99: p99(ours), yardstick: median(yardstick), ratio: median(ratios) };
  if (Object.values(measured).some(Number.isNaN)) throw new Error(`${text.topic}: ${text.name} has no samples`);
  const [ratioLow, ratioHigh] = medianInterval(ratios);
  const met = wanted === null ? null : wanted.met(measured);
  return {
    ...text,
    ...measured,
    ratioLow,
    ratioHigh,
    goal: wanted?.text ?? null,
    ok: met,
    note: met === false ? cause : note,
  };
}

export function notMeasured({ goal: wanted, ...text }: RowText, why: string): Row {
  const nothing = { median: null, p99: null, yardstick: null, ratio: null, ratioLow: null, ratioHigh: null };
  return { ...text, ...nothing, goal: wanted?.text ?? null, ok: null, note: `not measured because ${why}` };
}
