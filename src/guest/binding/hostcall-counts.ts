import { calls } from '../../abi/calls.ts';

/** One number per row of the table, in memory that several threads see. */
export const sharedCounts = (): Float64Array<SharedArrayBuffer> =>
  new Float64Array(new SharedArrayBuffer(calls.length * Float64Array.BYTES_PER_ELEMENT));

/** The calls that were made, by name. The thread that counts runs untrusted code: what cannot be a number of calls is none. */
export function namedCounts(counts: Float64Array): Record<string, number> {
  const named: Record<string, number> = {};
  for (const [index, count] of counts.entries()) {
    const call = calls[index];
    if (call !== undefined && count > 0 && Number.isSafeInteger(count)) named[call.name] = count;
  }
  return named;
}
