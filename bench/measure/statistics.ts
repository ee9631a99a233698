/** The value below which the fraction `q` of the samples lies, between two samples if need be. */
export function quantile(samples: readonly number[], q: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const at = (sorted.length - 1) * q;
  const below = sorted[Math.floor(at)] ?? Number.NaN;
  const above = sorted[Math.ceil(at)] ?? Number.NaN;
  return below + (above - below) * (at - Math.floor(at));
}

export const median = (samples: readonly number[]): number => quantile(samples, 0.5);
export const p99 = (samples: readonly number[]): number => quantile(samples, 0.99);

/** Two-sided 95 % of a normal distribution, which the count of samples below the median nearly has. */
const Z_95 = 1.96;

/**
 * Where the true median lies with 95 % confidence, by the order of the samples alone: it needs no assumption about how
 * noise is distributed, and noise on a busy machine is anything but normal.
 */
export function medianInterval(samples: readonly number[]): readonly [low: number, high: number] {
  const sorted = samples.toSorted((a, b) => a - b);
  const reach = (Z_95 * Math.sqrt(sorted.length)) / 2;
  const low = Math.max(0, Math.floor(sorted.length / 2 - reach));
  const high = Math.min(sorted.length - 1, Math.ceil(sorted.length / 2 + reach) - 1);
  return [sorted[low] ?? Number.NaN, sorted[Math.max(high, low)] ?? Number.NaN];
}
