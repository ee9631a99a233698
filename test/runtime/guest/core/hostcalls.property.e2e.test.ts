import fc from 'fast-check';
import { expect, it } from 'vitest';
import { calls } from '../../../../src/runtime/abi/calls.ts';
import { makeCalls } from './checked-calls.ts';
import { type RandomCall, randomCall } from './random-calls.ts';

const RUNS = 440;
const MAX_CALLS_PER_RUN = 600;
/** Always the same calls: a failure prints the seed and the path to the smallest run that fails. */
const SEED = 20_261;

let made = 0;
const seen = new Map<string, number>();

it('whatever is thrown at it, a call gives a documented result and writes into its buffer alone [abi.fuzz]', {
  timeout: 120_000,
}, async () => {
  const runs = fc.array(randomCall, { minLength: 1, maxLength: MAX_CALLS_PER_RUN, size: 'max' });
  await fc.assert(fc.asyncProperty(runs, runCalls), { seed: SEED, numRuns: RUNS });
  expect(made).toBeGreaterThanOrEqual(100_000);
  // The calls were not all refused at the door: each was made, and those that can succeed did.
  expect(calls.map(({ name }) => name).filter((name) => !seen.has(name))).toEqual([]);
  for (const name of [
    'cchat_send',
    'cchat_recv',
    'cchat_ctl',
    'cchat_write_msg',
    'cchat_write_fn',
    'spear_epoll_wait',
  ] as const) {
    expect(seen.get(`${name} ok`) ?? 0).toBeGreaterThan(100);
  }
});

const runCalls = (random: readonly RandomCall[]) =>
  makeCalls(random, (name, result) => {
    made++;
    count(name);
    if (result >= 0) count(`${name} ok`);
  });

const count = (key: string) => seen.set(key, (seen.get(key) ?? 0) + 1);
