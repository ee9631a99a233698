import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { PausableDeadline } from '../../src/base/pausable-deadline.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

it('spends its time only while nobody has stopped it', () => {
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

it('never expires once it is cleared, whoever lets it go on', () => {
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
