import { expect, it } from 'vitest';
import { type NodeContext, RunAttempts } from '../../src/node/attempt.ts';
import { AllRunEvents } from '../../src/server/queue/run-events.ts';
import type { Claim } from '../../src/server/queue/run-queue.ts';

it('an attempt that fails before its guest starts emits the status queued, and releases the events of its run', async () => {
  const events = new AllRunEvents();
  const attempts = new RunAttempts({
    engine: { events, journals: { earlier: async () => null }, sendEvents: null },
    stops: { of: () => null },
    tasks: { revision: () => Promise.reject(new Error('the tasks are out of reach')), notLoaded: () => null },
    traces: null,
  } as unknown as NodeContext);
  const claim = { run: { id: 'run-1', namespace: 'default', max_attempts: 3 }, attempt: 1, isCancelled: false };
  const outcome = await attempts.attempt(claim as unknown as Claim, new AbortController().signal);
  expect(outcome).toEqual({ kind: 'again', counts: true, pause: false, why: 'the tasks are out of reach' });
  const statuses = events
    .of('run-1')
    ?.since(null)
    .events.map(({ data }) => JSON.parse(data) as unknown);
  expect(statuses).toEqual([
    { status: 'running', attempt: 1 },
    { status: 'queued', reason: expect.any(String) },
  ]);
});
