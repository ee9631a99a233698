import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { AttemptOutcome } from '../../src/node/attempt.ts';
import { type NodeContext, RunAttempts } from '../../src/node/attempt.ts';
import { Dispatcher } from '../../src/node/dispatcher.ts';
import { ParkedRuns } from '../../src/node/parked-runs.ts';
import type { ParkedFor } from '../../src/server/queue/run-queue.ts';
import { newRun } from '../server/queue/queue-contract.ts';
import { FakeRunQueue } from '../support/fake-run-queue.ts';
import { FakeStops, sampleStop } from './stop-samples.ts';

const DRAIN_MS = 10_000;
const stopAll = sampleStop('all', '', 'stop');
const opened: { close(): unknown }[] = [];

beforeEach(() => void vi.useFakeTimers());
afterEach(async () => {
  for (const one of opened.splice(0)) void one.close();
  await vi.advanceTimersByTimeAsync(0);
  vi.useRealTimers();
});

const settled = async () => {
  for (let turns = 0; turns < 5; turns++) await vi.advanceTimersByTimeAsync(0);
};

/** A node whose guests run until they are aborted. */
async function start(fake: FakeStops, ...tasks: readonly string[]) {
  const queue = new FakeRunQueue();
  for (const task of tasks) await queue.submit(newRun(`run-of-${task}`, { task }));
  const aborted: (readonly [string, unknown])[] = [];
  const started: string[] = [];
  const dispatcher = new Dispatcher({
    ...{ queue, node: 'n1', pool: 'default', slots: 10, runsPerCaller: 10, leaseMs: 30_000, drainMs: DRAIN_MS },
    concurrency: () => 10,
    attempt: (claim, signal) => {
      started.push(claim.run.task);
      const { promise, resolve } = Promise.withResolvers<AttemptOutcome>();
      signal.addEventListener('abort', () => {
        aborted.push([claim.run.task, signal.reason]);
        resolve({ kind: 'again', counts: false, pause: false, why: 'stopped' });
      });
      return promise;
    },
    onParked: () => {},
    stops: fake.stops,
    log: () => {},
  });
  dispatcher.start();
  opened.push({ close: () => dispatcher.drain(0) });
  await settled();
  return { queue, started, aborted };
}

describe('a stop on a node', () => {
  it('keeps new runs of its scope queued, without an attempt, until it is lifted [stop.runs]', async () => {
    const fake = new FakeStops();
    fake.set(sampleStop('task', 'default/a', 'stop'));
    const { queue, started } = await start(fake, 'a', 'b');
    expect(started).toEqual(['b']);
    expect(await queue.find('run-of-a')).toMatchObject({ status: 'queued', attempts: 0 });
    fake.set();
    await settled();
    expect(started).toEqual(['b', 'a']);
  });

  it('makes no claims at all while everything is stopped', async () => {
    const fake = new FakeStops();
    fake.set(stopAll);
    const { queue } = await start(fake, 'a');
    expect(queue.called('claim')).toEqual([]);
  });

  it('ends running guests of its scope in the same turn, and no others [stop.runs]', async () => {
    const fake = new FakeStops();
    const { aborted } = await start(fake, 'a', 'b');
    const stop = sampleStop('task', 'default/a', 'stop');
    fake.set(stop);
    expect(aborted).toEqual([['a', { stop }]]);
  });

  it('claims runs that it cancels: they end without a guest [stop.cancel]', async () => {
    const fake = new FakeStops();
    fake.set(sampleStop('all', '', 'cancel'));
    const { started } = await start(fake, 'a');
    expect(started).toEqual(['a']);
  });
});

describe('a paused task', () => {
  it('starts no more runs, and those that run continue [stop.pause]', async () => {
    const fake = new FakeStops();
    const { queue, started, aborted } = await start(fake, 'a');
    fake.set(sampleStop('task', 'default/a', 'pause'));
    await queue.submit(newRun('second', { task: 'a' }));
    await settled();
    expect([started, aborted]).toEqual([['a'], []]);
    fake.set();
    await settled();
    expect(started).toEqual(['a', 'a']);
  });
});

describe('a node', () => {
  it('starts no more runs while it is cordoned, and those that run continue [stop.node]', async () => {
    const fake = new FakeStops();
    const { queue, started, aborted } = await start(fake, 'a');
    fake.set(sampleStop('node', 'worker-3', 'pause'));
    await queue.submit(newRun('second', { task: 'b' }));
    await vi.advanceTimersByTimeAsync(2 * DRAIN_MS);
    expect([started, aborted]).toEqual([['a'], []]);
    fake.set(sampleStop('node', 'worker-4', 'pause'));
    await settled();
    expect(started).toEqual(['a', 'b']);
  });

  it('returns its runs to the queue when it is drained, after the time they have to end [stop.node]', async () => {
    const fake = new FakeStops();
    const { queue, aborted } = await start(fake, 'a');
    fake.set(sampleStop('node', 'worker-3:n1', 'drain'));
    await vi.advanceTimersByTimeAsync(DRAIN_MS - 1);
    expect(aborted).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(aborted).toEqual([['a', 'draining']]);
    expect(await queue.find('run-of-a')).toMatchObject({ status: 'queued', attempts: 0 });
  });

  it('returns its runs after that time also if other stops are set and lifted meanwhile', async () => {
    const fake = new FakeStops();
    const { aborted } = await start(fake, 'a');
    const drain = sampleStop('node', 'worker-3:n1', 'drain');
    fake.set(drain);
    await vi.advanceTimersByTimeAsync(DRAIN_MS / 2);
    fake.set(drain, sampleStop('task', 'default/other', 'pause', 'bbbb0002'));
    await vi.advanceTimersByTimeAsync(DRAIN_MS / 2);
    expect(aborted).toEqual([['a', 'draining']]);
  });

  it('keeps its runs when it is uncordoned before that time', async () => {
    const fake = new FakeStops();
    const { aborted } = await start(fake, 'a');
    fake.set(sampleStop('node', 'worker-3:n1', 'drain'));
    fake.set();
    await vi.advanceTimersByTimeAsync(2 * DRAIN_MS);
    expect(aborted).toEqual([]);
  });
});

describe('parked runs', () => {
  async function watch(fake: FakeStops, untils: Readonly<Record<string, ParkedFor>>) {
    const queue = new FakeRunQueue();
    for (const id of Object.keys(untils)) await queue.submit(newRun(id));
    for (const claim of await queue.claim('n1', 'default', 100, 60_000, () => true)) {
      await queue.park(claim, untils[claim.run.id] as ParkedFor);
    }
    const runs = new ParkedRuns({ queue, pool: 'default', approvals: null, stops: fake.stops, log: () => {} });
    opened.push(runs);
    await settled();
    return { queue, runs, woken: () => queue.called('wake').map(([id]) => id) };
  }

  const byStop = (stop: string): ParkedFor => ({ kind: 'stop', stop, reason: 'incident 12' });

  it('of a stop resume when it is lifted, also if that was while the node was down [stop.runs]', async () => {
    const fake = new FakeStops();
    fake.set(stopAll);
    const { woken } = await watch(fake, { r1: byStop('aaaa0001'), r2: byStop('bbbb0002'), r3: { kind: 'stream' } });
    expect(woken()).toEqual(['r2']);
    fake.set();
    await settled();
    expect(woken()).toEqual(['r2', 'r1']);
  });

  it('resume if the stop was lifted while they were being parked', async () => {
    const { runs, woken } = await watch(new FakeStops(), {});
    runs.parked({ namespace: 'default', id: 'r1', until: byStop('aaaa0001') }, []);
    await settled();
    expect(woken()).toEqual(['r1']);
  });

  it('are woken to be cancelled by a stop with --cancel, whatever they wait for [stop.cancel]', async () => {
    const fake = new FakeStops();
    const { woken } = await watch(fake, { r1: { kind: 'stream' } });
    fake.set(sampleStop('namespace', 'other', 'cancel'));
    await settled();
    expect(woken()).toEqual([]);
    fake.set(sampleStop('namespace', 'default', 'cancel'));
    await settled();
    expect(woken()).toEqual(['r1']);
  });
});

describe('an attempt', () => {
  async function attempt(stop: ReturnType<typeof sampleStop>) {
    const fake = new FakeStops();
    fake.set(stop);
    const queue = new FakeRunQueue();
    await queue.submit(newRun('r1'));
    const [claim] = await queue.claim('n1', 'default', 1, 60_000, () => true);
    const withdrawn: string[] = [];
    const attempts = new RunAttempts({
      engine: {
        queue,
        journals: { earlier: async () => null },
        events: { begin: () => ({ emit: () => {}, end: () => {}, idle: () => {} }) },
        sendEvents: null,
      },
      stops: fake.stops,
      parked: { left: async (_: string, id: string) => void withdrawn.push(id) },
      ...{ traces: null, log: () => {} },
    } as unknown as NodeContext);
    if (claim === undefined) throw new Error('nothing was claimed');
    return { outcome: await attempts.attempt(claim, new AbortController().signal), withdrawn };
  }

  it('of a cancelled run ends it with the reason, and withdraws its requests [stop.cancel]', async () => {
    const { outcome, withdrawn } = await attempt(sampleStop('all', '', 'cancel'));
    expect(outcome).toMatchObject({
      kind: 'ended',
      ending: { status: 'cancelled', exit: { reason: 'cancelled', message: 'stopped: incident 12' } },
    });
    expect(withdrawn).toEqual(['r1']);
  });

  it('of a run that was stopped while it was claimed returns it, uncounted, with the reason [stop.runs]', async () => {
    const { outcome } = await attempt(stopAll);
    expect(outcome).toEqual({ kind: 'again', counts: false, pause: false, why: 'stopped: incident 12' });
  });
});
