import type { Attempt, TimelineEntry } from './timeline-entry.ts';

/** How wide a waterfall is, in units of its own. */
export const AXIS_WIDTH = 1_000;
/** Between two attempts nothing happened, perhaps for days: that time gets so much room. */
const GAP_WIDTH = 16;
/** What takes no time is seen all the same. */
const MIN_WIDTH = 3;

/** Where on a waterfall something lies. */
export interface Bar {
  readonly x: number;
  readonly width: number;
}

/** The time that the attempts of a run took, one after the other. */
export class TimelineAxis {
  readonly #attempts: readonly Attempt[];
  readonly #scale: number;
  /** In milliseconds, without what lies between the attempts. */
  readonly total: number;

  constructor(attempts: readonly Attempt[]) {
    this.#attempts = attempts;
    this.total = attempts.reduce((sum, { start_ms, end_ms }) => sum + end_ms - start_ms, 0);
    const gaps = Math.min((attempts.length - 1) * GAP_WIDTH, AXIS_WIDTH / 2);
    this.#scale = (AXIS_WIDTH - gaps) / Math.max(this.total, 1);
  }

  /** Something whose end is not known lasts as long as its attempt. */
  bar({ start_ms, end_ms }: Pick<TimelineEntry, 'start_ms' | 'end_ms'>): Bar {
    const end = end_ms ?? this.#attempts.find((attempt) => attempt.end_ms >= start_ms)?.end_ms ?? start_ms;
    const width = Math.max(this.#place(end) - this.#place(start_ms), MIN_WIDTH);
    return { x: rounded(Math.min(this.#place(start_ms), AXIS_WIDTH - width)), width: rounded(width) };
  }

  #place(ms: number): number {
    let x = 0;
    for (const { start_ms, end_ms } of this.#attempts) {
      if (ms <= end_ms) return x + Math.max(ms - start_ms, 0) * this.#scale;
      x += (end_ms - start_ms) * this.#scale + Math.min(GAP_WIDTH, AXIS_WIDTH / 2 / this.#attempts.length);
    }
    return AXIS_WIDTH;
  }
}

const rounded = (number: number) => Math.round(number * 10) / 10;
