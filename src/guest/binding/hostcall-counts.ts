import { calls } from '../../abi/calls.ts';

/** One number per row of the table. */
export const newCounts = (): Float64Array => new Float64Array(calls.length);

/** The calls that were made, by name. */
export function namedCounts(counts: Float64Array): Record<string, number> {
  return Object.fromEntries(calls.map(({ name }, index) => [name, counts[index] ?? 0]).filter(([, count]) => count));
}
