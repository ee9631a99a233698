import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { RunClock } from '../../../src/runtime/host/run-clock.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function open(timeoutMs: number) {
  const expired = vi.fn();
  return { clock: new RunClock(timeoutMs, async () => null, expired), expired };
}

it('starts when the guest starts, however long it waited for a thread [run.deadline-start]', async () => {
  const { clock, expired } = open(100);
  await vi.advanceTimersByTimeAsync(10_000);
  expect([clock.leftMs, expired.mock.calls.length]).toEqual([100, 0]);
  clock.start();
  await vi.advanceTimersByTimeAsync(99);
  expect(expired).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(expired).toHaveBeenCalledOnce();
});

it('gives back what a replay took [run.deadline-start]', async () => {
  const { clock, expired } = open(100);
  clock.start();
  await vi.advanceTimersByTimeAsync(80);
  clock.spend(30 - 80);
  await vi.advanceTimersByTimeAsync(69);
  expect(expired).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(expired).toHaveBeenCalledOnce();
});

it('expires at once when more is spent than there is', () => {
  const { clock, expired } = open(100);
  clock.start();
  clock.spend(100);
  expect(expired).toHaveBeenCalledOnce();
});
