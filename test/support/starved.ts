import { readFileSync } from 'node:fs';

/** Milliseconds for which the main thread of a process could have run and got no processor: the fault of a busy machine. */
export function starvedMs(pid: number | undefined): number {
  // Nanoseconds on a processor, nanoseconds of waiting for one, and how often it got one.
  const [, waitedNs] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'latin1').split(' ');
  return Number(waitedNs) / 1e6;
}
