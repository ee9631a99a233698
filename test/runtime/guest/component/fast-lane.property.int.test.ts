import fc from 'fast-check';
import { expect, it } from 'vitest';
import { witFunctions } from '../../../../src/runtime/abi/wit.ts';
import { makeFlatCalls } from './checked-flat-calls.ts';
import { flatFastLane } from './flat-fast-lane.ts';
import { randomFlatCall } from './random-flat-calls.ts';

const RUNS = 120;
const CALLS_PER_RUN = 200;
/** Always the same calls: a failure prints the seed and the path to the smallest run that fails. */
const SEED = 51_109;

const seen = new Map<string, number>();
const count = (key: string) => seen.set(key, (seen.get(key) ?? 0) + 1);

it('whatever a component passes, a call gives a documented result or ends it, and writes nowhere else [abi.fuzz]', {
  timeout: 120_000,
}, async () => {
  const lane = await flatFastLane();
  const runs = fc.array(randomFlatCall, { minLength: 1, maxLength: CALLS_PER_RUN, size: 'max' });
  const run = fc.asyncProperty(runs, (random) =>
    makeFlatCalls(lane, random, (name, outcome) => {
      count(name);
      count(outcome);
    }),
  );
  await fc.assert(run, { seed: SEED, numRuns: RUNS });
  expect(witFunctions.map(({ name }) => name).filter((name) => !seen.has(name))).toEqual([]);
  for (const outcome of ['trap', 'ok', 'errno']) expect(seen.get(outcome)).toBeGreaterThan(500);
});
