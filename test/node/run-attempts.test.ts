import { expect, it } from 'vitest';
import { RunAttempts, type RunAttemptsOptions } from '../../src/node/run-attempts.ts';
import { AllRunEvents } from '../../src/server/queue/run-events.ts';
import type { Claim } from '../../src/server/queue/run-queue.ts';

it('an attempt that could not be made is told of as any other that is made again, and leaves its run to the next', async () => {
  const events = new AllRunEvents();
  const attempts = new RunAttempts({
    events,
    journals: { earlier: async () => null },
    tasks: { revision: () => Promise.reject(new Error('the tasks are out of reach')), notLoaded: () => null },
    sendEvents: null,
    traces: null,
  } as unknown as RunAttemptsOptions);
  const claim = { run: { id: 'run-1', namespace: 'default', max_attempts: 3 }, attempt: 1, isCancelled: false };
  const outcome = await attempts.attempt(claim as unknown as Claim, new AbortController().signal);
  expect(outcome).toEqual({ kind: 'again', counts: true, pause: false, why: 'the tasks are out of reach' });
  const told = events
    .of('run-1')
    ?.since(null)
    .events.map(({ data }) => JSON.parse(data) as unknown);
  expect(told).toEqual([
    { status: 'running', attempt: 1 },
    { status: 'queued', reason: expect.any(String) },
  ]);
});
