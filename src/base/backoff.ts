/** Pauses that double from `firstMs` up to `maxMs`. */
export interface Backoff {
  readonly firstMs: number;
  readonly maxMs: number;
}

export interface Dice {
  /** In [0, 1). */
  random(): number;
}

/**
 * The pause after so many failures in a row, at least one. Half of it is random: what failed together must not come
 * back together.
 */
export function backoffMs({ firstMs, maxMs }: Backoff, failures: number, dice: Dice): number {
  const full = Math.min(maxMs, firstMs * 2 ** Math.max(0, failures - 1));
  return Math.round((full / 2) * (1 + dice.random()));
}
