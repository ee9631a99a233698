import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { backoffMs, PausableDeadline } from '../../src/base/timing.ts';

const backoff = { firstMs: 100, maxMs: 1_000 };

it('doubles with every failure, up to the maximum', () => {
  const longest = [1, 2, 3, 4, 5, 50, 5_000].map((failures) => backoffMs(backoff, failures, { random: () => 1 }));
  expect(longest).toEqual([100, 200, 400, 800, 1_000, 1_000, 1_000]);
  expect(backoffMs(backoff, 0, { random: () => 1 })).toBe(100);
});

it('randomizes half of the delay', () => {
  expect([0, 0.5, 1].map((dice) => backoffMs(backoff, 2, { random: () => dice }))).toEqual([100, 150, 200]);
});

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

it('spends its time only while it is not paused', () => {
  const expired = vi.fn();
  const deadline = new PausableDeadline(100, expired);
  vi.advanceTimersByTime(60);
  const [first, second] = [deadline.pause(), deadline.pause()];
  vi.advanceTimersByTime(1_000);
  expect(Math.round(deadline.leftMs)).toBe(40);
  first();
  first();
  vi.advanceTimersByTime(1_000);
  second();
  vi.advanceTimersByTime(39);
  expect(expired).not.toHaveBeenCalled();
  vi.advanceTimersByTime(2);
  expect(expired).toHaveBeenCalledTimes(1);
});

it('never expires once it is cleared, even if a pause ends later', () => {
  const expired = vi.fn();
  const deadline = new PausableDeadline(100, expired);
  const goOn = deadline.pause();
  deadline.clear();
  goOn();
  vi.advanceTimersByTime(1_000);
  expect(expired).not.toHaveBeenCalled();
});

it('can be charged while it stands still, and expires for it', () => {
  const expired = vi.fn();
  const deadline = new PausableDeadline(100, expired);
  deadline.pause();
  deadline.spend(60);
  expect(expired).not.toHaveBeenCalled();
  deadline.spend(60);
  expect(expired).toHaveBeenCalledTimes(1);
});
