import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { expect, it, vi } from 'vitest';
import { RunClock } from '../../../src/runtime/host/run-clock.ts';

const computedBy = (worker: Worker) => async () => {
  const { user, system } = await worker.cpuUsage();
  return (user + system) / 1_000;
};

it('is paused while an approval is pending, except for what the guest computes meanwhile [approval.clocks]', async () => {
  const idle = new Worker('setInterval(() => {}, 1_000)', { eval: true });
  const busy = new Worker('for (;;);', { eval: true });
  await Promise.all([once(idle, 'online'), once(busy, 'online')]);
  const late = vi.fn();
  const clock = new RunClock(500, computedBy(idle), late);
  clock.pause();
  await new Promise<void>((resolve) => new RunClock(500, computedBy(busy), resolve).pause());
  expect(late).not.toHaveBeenCalled();
  clock.clear();
  await Promise.all([idle.terminate(), busy.terminate()]);
});
