import { calls } from '../../abi/calls.ts';

/** What one guest counts: the calls of each row of the table, then the milliseconds it computed where that is told. */
export const COUNTERS = calls.length + 1;
export const COMPUTED_AT = calls.length;

/** Those of so many guests, in memory that several threads see. */
export const sharedCounts = (guests = 1): Float64Array<SharedArrayBuffer> =>
  new Float64Array(new SharedArrayBuffer(guests * COUNTERS * Float64Array.BYTES_PER_ELEMENT));

/** The calls that were made, by name. The thread that counts runs untrusted code: what cannot be a number of calls is none. */
export function namedCounts(counts: Float64Array): Record<string, number> {
  const named: Record<string, number> = {};
  for (let index = 0; index < calls.length; index++) {
    const count = counts[index] as number;
    if (count > 0 && Number.isSafeInteger(count)) named[calls[index]?.name as string] = count;
  }
  return named;
}
