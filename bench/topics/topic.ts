import type { Row } from '../measure/row.ts';

/** How much is measured: a quick run shows the picture, a full one its fine print. */
export interface Effort {
  readonly quick: boolean;
  /** Picks a number for the effort. */
  of(quick: number, full: number): number;
}

export const effortOf = (quick: boolean): Effort => ({ quick, of: (few, many) => (quick ? few : many) });

/** A topic of the bench. It has a process of its own, so that none leaves the next its garbage or its heat. */
export type Topic = (effort: Effort) => Promise<Row[]>;
