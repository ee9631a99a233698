import { expect, it } from 'vitest';
import { backoffMs } from '../../src/base/backoff.ts';

const backoff = { firstMs: 100, maxMs: 1_000 };

it('doubles with every failure, up to the longest pause', () => {
  const longest = [1, 2, 3, 4, 5, 50, 5_000].map((failures) => backoffMs(backoff, failures, { random: () => 1 }));
  expect(longest).toEqual([100, 200, 400, 800, 1_000, 1_000, 1_000]);
  expect(backoffMs(backoff, 0, { random: () => 1 })).toBe(100);
});

it('leaves half of it to chance', () => {
  expect([0, 0.5, 1].map((dice) => backoffMs(backoff, 2, { random: () => dice }))).toEqual([100, 150, 200]);
});
