import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { AttemptOutcome } from '../../src/node/attempt.ts';
import { Dispatcher, type DispatcherOptions } from '../../src/node/dispatcher.ts';
import type { ParkedRun } from '../../src/node/parked-runs.ts';
import type { Claim, NewRun } from '../../src/server/queue/run-queue.ts';
import { newRun, success } from '../server/queue/queue-contract.ts';
import { FakeRunQueue } from '../support/fake-run-queue.ts';

const LEASE_MS = 30_000;
/** Between two claims after a pause. */
const STEP_MS = 250;
const HOUR_MS = 3_600_000;

const succeeded: AttemptOutcome = { kind: 'ended', ending: success('done') };
const again = (
  more: { counts?: boolean; pause?: boolean; holds?: 'namespace'; why?: string } = {},
): AttemptOutcome => ({
  ...{ kind: 'again', counts: false, pause: false, why: 'the model is away' },
  ...more,
});

/** An attempt that is in flight until the test settles it. */
interface FakeAttempt {
  readonly claim: Claim;
  readonly signal: AbortSignal;
  readonly settle: (outcome: AttemptOutcome) => void;
  readonly fail: (error: Error) => void;
}

const opened: Dispatcher[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  // The random half of every back-off is zero.
  vi.spyOn(Math, 'random').mockReturnValue(0);
});
afterEach(async () => {
  for (const dispatcher of opened.splice(0)) void dispatcher.drain(0);
  await vi.advanceTimersByTimeAsync(0);
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** Lets everything happen that waits for no timer. */
const settled = () => vi.advanceTimersByTimeAsync(0);
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

function start(queue: FakeRunQueue, more: Partial<DispatcherOptions> = {}) {
  const attempts: FakeAttempt[] = [];
  const parked: (readonly [ParkedRun, readonly string[]])[] = [];
  const logged: string[] = [];
  const dispatcher = new Dispatcher({
    queue,
    node: 'n1',
    pool: 'default',
    slots: 4,
    runsPerCaller: 100,
    leaseMs: LEASE_MS,
    concurrency: () => 100,
    attempt: (claim, signal) => {
      const { promise, resolve, reject } = Promise.withResolvers<AttemptOutcome>();
      attempts.push({ claim, signal, settle: resolve, fail: reject });
      signal.addEventListener('abort', () => resolve(again({ why: String(signal.reason) })));
      return promise;
    },
    onParked: (...given) => parked.push(given),
    log: (level, event, fields = {}) =>
      logged.push([level, event, fields.message ?? fields.why ?? ''].join(' ').trim()),
    ...more,
  });
  dispatcher.start();
  opened.push(dispatcher);
  const last = (id: string) => attempts.findLast(({ claim }) => claim.run.id === id) as FakeAttempt;
  return { dispatcher, attempts, parked, logged, last, ids: () => attempts.map(({ claim }) => claim.run.id) };
}

async function queueWith(...runs: readonly (string | NewRun)[]): Promise<FakeRunQueue> {
  const queue = new FakeRunQueue();
  for (const run of runs) await queue.submit(typeof run === 'string' ? newRun(run) : run);
  return queue;
}

const statusOf = async (queue: FakeRunQueue, id: string) => (await queue.find(id))?.status;

describe('claims of the dispatcher', () => {
  it('fill the free slots and no more, in the order of submission', async () => {
    const { dispatcher, ids } = start(await queueWith('r1', 'r2', 'r3'), { slots: 2 });
    await settled();
    expect([ids(), dispatcher.running, dispatcher.starts]).toEqual([['r1', 'r2'], 2, 2]);
  });

  it('name the node, its pool, the free slots and the lease', async () => {
    const queue = await queueWith(newRun('r1', { pool: 'gpu' }));
    start(queue, { pool: 'gpu', node: 'n7', slots: 3 });
    await settled();
    expect(queue.called('claim')).toEqual([['gpu', { node: 'n7', max: 3, leaseMs: LEASE_MS }]]);
  });

  it('leave the runs of another pool to other nodes', async () => {
    const { ids } = start(await queueWith(newRun('r1', { pool: 'gpu' })));
    await settled();
    expect(ids()).toEqual([]);
  });

  it('start the next run when an attempt ends', async () => {
    const { last, ids, dispatcher } = start(await queueWith('r1', 'r2'), { slots: 1 });
    await settled();
    last('r1').settle(succeeded);
    await settled();
    expect([ids(), dispatcher.running]).toEqual([['r1', 'r2'], 1]);
  });

  it('start a run that is submitted later, as soon as the queue notifies of it', async () => {
    const queue = await queueWith();
    const { ids } = start(queue);
    await pass(HOUR_MS);
    await queue.submit(newRun('r1'));
    await settled();
    expect(ids()).toEqual(['r1']);
  });

  it('are not made while every slot is taken', async () => {
    const queue = await queueWith('r1');
    start(queue, { slots: 1 });
    await settled();
    const before = queue.called('claim').length;
    await queue.submit(newRun('r2'));
    queue.notify();
    await settled();
    expect(queue.called('claim')).toHaveLength(before);
  });

  it('respect the concurrency of a task, counting runs that were claimed together, and serve other tasks', async () => {
    const queue = await queueWith(
      ...['a1', 'a2', 'a3'].map((id) => newRun(id, { task: 'a' })),
      ...['b1', 'b2'].map((id) => newRun(id, { task: 'b' })),
    );
    const { ids, last } = start(queue, { slots: 10, concurrency: (_, task) => (task === 'a' ? 1 : 2) });
    await settled();
    expect(ids()).toEqual(['a1', 'b1', 'b2']);
    last('a1').settle(succeeded);
    await settled();
    expect(ids()).toEqual(['a1', 'b1', 'b2', 'a2']);
  });

  it('respect the runs per caller, and serve other callers', async () => {
    const queue = await queueWith(
      ...['a1', 'a2', 'a3'].map((id) => newRun(id, { submittedBy: 'ann' })),
      newRun('b1', { submittedBy: 'bob' }),
    );
    const { ids } = start(queue, { slots: 10, runsPerCaller: 2 });
    await settled();
    expect(ids()).toEqual(['a1', 'b1', 'a2']);
  });

  it('count a caller and a task of the same name apart in each namespace', async () => {
    const queue = await queueWith(newRun('r1'), newRun('r2', { namespace: 'team-a' }), newRun('r3'));
    const { ids } = start(queue, { runsPerCaller: 1, concurrency: () => 1 });
    await settled();
    expect(ids()).toEqual(['r1', 'r2']);
  });

  it('give every caller a turn where one has filled the queue', async () => {
    const many = Array.from({ length: 20 }, (_, at) => newRun(`ann-${at}`, { submittedBy: 'ann' }));
    const queue = await queueWith(...many, newRun('bob-0', { submittedBy: 'bob' }));
    const { ids } = start(queue, { slots: 2 });
    await settled();
    expect(ids()).toEqual(['ann-0', 'bob-0']);
  });
});

describe('an idle dispatcher', () => {
  it('makes no claims until it is notified', async () => {
    const queue = await queueWith();
    start(queue);
    await pass(24 * HOUR_MS);
    expect(queue.called('claim')).toHaveLength(1);
  });

  it('makes one claim for notifications that come together, and one more for those that come meanwhile', async () => {
    const queue = await queueWith();
    start(queue);
    await settled();
    const goOn = queue.hold('claim');
    for (let times = 0; times < 1_000; times++) queue.notify();
    await settled();
    expect(queue.called('claim')).toHaveLength(2);
    goOn();
    await settled();
    expect(queue.called('claim')).toHaveLength(3);
  });
});

describe('a queue that fails', () => {
  it('is asked for runs again with back-off, up to 30 s, and not in a loop', async () => {
    const queue = await queueWith('r1');
    queue.fail('claim', new Error('disk full'), 7);
    const { logged, ids } = start(queue);
    const times: number[] = [];
    for (let at = 0; ids().length === 0; at += 500) {
      await pass(at === 0 ? 0 : 500);
      if (queue.called('claim').length > times.length) times.push(at);
    }
    // Each pause is half of 1, 2, 4, … 30 s: the random half is zero here.
    expect(times).toEqual([0, 500, 1_500, 3_500, 7_500, 15_500, 30_500, 45_500]);
    expect(logged).toEqual(Array(7).fill('error claim_failed disk full'));
  });

  it('is asked once after the pause, however often it notifies of work meanwhile', async () => {
    const queue = await queueWith('r1');
    queue.fail('claim', new Error('disk full'));
    start(queue);
    for (let times = 0; times < 100; times++) {
      queue.notify();
      await pass(4);
    }
    expect(queue.called('claim')).toHaveLength(1);
    await pass(100);
    expect(queue.called('claim')).toHaveLength(2);
  });

  it.each([
    ['finish', succeeded, 'succeeded'],
    ['release', again(), 'running'], // claimed again at once
    ['park', { kind: 'parked', until: { kind: 'stream' }, requests: [] }, 'parked'],
  ] as const)('gets the outcome of a run again until it is stored: %s', async (method, outcome, status) => {
    const queue = await queueWith('r1', 'r2');
    queue.fail(method, new Error('disk full'), 3);
    const { last, logged, dispatcher } = start(queue, { slots: 1 });
    await settled();
    last('r1').settle(outcome);
    await pass(125 + 250 + 500 - 1);
    expect([queue.called(method).length, dispatcher.running]).toEqual([3, 1]);
    await pass(1);
    expect(queue.called(method)).toHaveLength(4);
    expect(await statusOf(queue, 'r1')).toBe(status);
    expect(logged.filter((line) => line === 'error not_stored disk full')).toHaveLength(3);
  });

  it('keeps the slot of a run whose outcome is not stored', async () => {
    const queue = await queueWith('r1', 'r2');
    queue.fail('finish', new Error('disk full'));
    const { last, ids } = start(queue, { slots: 1 });
    await settled();
    last('r1').settle(succeeded);
    await pass(124);
    expect(ids()).toEqual(['r1']);
    await pass(1);
    expect(ids()).toEqual(['r1', 'r2']);
  });
});

describe('an attempt', () => {
  it('that ended is written with its result', async () => {
    const queue = await queueWith('r1');
    const { last, logged, dispatcher } = start(queue);
    await settled();
    last('r1').settle(succeeded);
    await settled();
    expect(await queue.find('r1')).toMatchObject({ status: 'succeeded', attempts: 1, node: 'n1' });
    expect([logged, dispatcher.running]).toEqual([['info run_ended'], 0]);
  });

  it.each([
    [1, 125],
    [2, 250],
    [3, 500],
    [6, 4_000],
    [7, 5_000],
    [20, 5_000],
  ])('number %i that failed counts, and is retried after a back-off of %i ms', async (attempt, ms) => {
    const queue = await queueWith(newRun('r1', { maxAttempts: 99 }));
    const { last, attempts, logged } = start(queue);
    for (let earlier = 1; earlier < attempt; earlier++) {
      await settled();
      last('r1').fail(new Error('the model is away'));
      await pass(5_000);
    }
    await settled();
    expect(last('r1').claim.attempt).toBe(attempt);
    last('r1').fail(new Error('the model is away'));
    await pass(ms - 1);
    expect(attempts).toHaveLength(attempt);
    await pass(1);
    expect(queue.called('release').at(-1)).toEqual(['r1', { counts: true }]);
    expect(last('r1').claim.attempt).toBe(attempt + 1);
    expect(logged.at(-1)).toBe('warn run_again the model is away');
  });

  it('that does not count is retried at once, as the same attempt', async () => {
    const queue = await queueWith('r1');
    const { last, attempts } = start(queue);
    await settled();
    last('r1').settle(again());
    await settled();
    expect(attempts.map(({ claim }) => claim.attempt)).toEqual([1, 1]);
    expect(queue.called('release')).toEqual([['r1', { counts: false }]]);
  });

  it('that found no guest thread holds its namespace and no other, longer each time, until a run ends [threads.first]', async () => {
    const queue = await queueWith(newRun('r1', { namespace: 'busy' }));
    const { last, attempts, ids } = start(queue);
    await settled();
    const heldMs = async () => {
      const before = attempts.length;
      last('r1').settle(again({ holds: 'namespace', why: 'no guest thread is free' }));
      let ms = 0;
      for (await settled(); attempts.length === before; ms += 100) await pass(100);
      return ms;
    };
    expect([await heldMs(), await heldMs()]).toEqual([500, 1_000]);
    expect(last('r1').claim.attempt).toBe(1);
    last('r1').settle(again({ holds: 'namespace', why: 'no guest thread is free' }));
    await settled();
    expect(await queue.find('r1')).toMatchObject({ status: 'queued', status_reason: 'no guest thread is free' });
    await queue.submit(newRun('r2', { namespace: 'busy' }));
    await queue.submit(newRun('r3', { namespace: 'other' }));
    await settled();
    expect(ids().slice(3)).toEqual(['r3']);
    await pass(2_000);
    expect(ids().slice(4)).toEqual(['r1', 'r2']);
    last('r2').settle(succeeded);
    await settled();
    expect(await heldMs()).toBe(500);
  });

  it('that asks for a pause stops all claims for it, longer each time, until a run ends well', async () => {
    const queue = await queueWith('r1');
    const { last, attempts } = start(queue);
    await settled();
    const pausedMs = async () => {
      const before = attempts.length;
      last('r1').settle(again({ pause: true }));
      let ms = 0;
      for (await settled(); attempts.length === before; ms += 100) await pass(100);
      return ms;
    };
    expect([await pausedMs(), await pausedMs(), await pausedMs()]).toEqual([500, 1_000, 2_000]);
    last('r1').settle(succeeded);
    await queue.submit(newRun('r1b'));
    await pass(STEP_MS);
    last('r1b').settle(again({ pause: true }));
    await pass(499);
    expect(last('r1b').claim.attempt).toBe(1);
    expect(attempts.filter(({ claim }) => claim.run.id === 'r1b')).toHaveLength(1);
    await pass(1);
    expect(attempts.filter(({ claim }) => claim.run.id === 'r1b')).toHaveLength(2);
  });

  it('that lacks a resource stops all claims once for those that fail together, and names why [node.pressure]', async () => {
    const queue = await queueWith('r1', 'r2', 'r3', 'r4');
    const { dispatcher, last, ids, attempts } = start(queue);
    await settled();
    const emfile = Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' });
    for (const id of ['r1', 'r2', 'r3', 'r4']) last(id).fail(emfile);
    await settled();
    expect(queue.called('release').map(([, release]) => release)).toEqual(Array(4).fill({ counts: false }));
    expect((await queue.find('r1'))?.status_reason).toContain('EMFILE');
    expect([dispatcher.running, dispatcher.problem()]).toEqual([0, expect.stringContaining('no free file descriptor')]);
    await pass(499);
    expect(attempts).toHaveLength(4);
    await pass(1);
    // One run shows whether the resource is back; then two at once, then the others.
    expect([ids().length, dispatcher.problem()]).toEqual([5, null]);
    await pass(STEP_MS);
    expect(dispatcher.running).toBe(3);
    await pass(STEP_MS);
    expect(dispatcher.running).toBe(4);
  });

  it('that parks frees its slot, and names the requests of the run', async () => {
    const queue = await queueWith('r1', 'r2');
    const { last, parked, ids } = start(queue, { slots: 1 });
    await settled();
    const until = { kind: 'approval', request: 'a-1 b-1' } as const;
    last('r1').settle({ kind: 'parked', until, requests: ['a-1', 'b-1'] });
    await settled();
    expect(parked).toEqual([[{ namespace: 'default', id: 'r1', until }, ['a-1', 'b-1']]]);
    expect(ids()).toEqual(['r1', 'r2']);
    expect(await queue.find('r1')).toMatchObject({ status: 'parked', attempts: 0, parked_for: until });
  });

  it('that parks after its run went to another node is not watched here', async () => {
    const queue = await queueWith('r1');
    const { last, parked, dispatcher } = start(queue);
    await settled();
    vi.setSystemTime(Date.now() + LEASE_MS);
    const [elsewhere] = await queue.claim('n2', 'default', 1, LEASE_MS, () => true);
    last('r1').settle({ kind: 'parked', until: { kind: 'stream' }, requests: ['a-1'] });
    await settled();
    expect(elsewhere?.attempt).toBe(2);
    expect([parked, dispatcher.running, await statusOf(queue, 'r1')]).toEqual([[], 0, 'running']);
  });
});

describe('a parked run', () => {
  const until = { kind: 'time', atMs: 7 } as const;
  const parkedRun = async () => {
    const queue = await queueWith('r1');
    const all = start(queue);
    await settled();
    all.last('r1').settle({ kind: 'parked', until, requests: [] });
    await settled();
    return { queue, ...all };
  };

  it('is claimed when it is woken, ahead of runs that were queued meanwhile, and as the same attempt', async () => {
    const { queue, ids, last } = await parkedRun();
    await pass(HOUR_MS);
    expect(ids()).toEqual(['r1']);
    await queue.wake('default', 'r1');
    await settled();
    expect(ids()).toEqual(['r1', 'r1']);
    expect(last('r1').claim.attempt).toBe(1);
  });

  it('that is cancelled is not claimed again, also where it is woken afterwards', async () => {
    const { queue, ids } = await parkedRun();
    expect(await queue.cancel('default', 'r1')).toMatchObject({ status: 'cancelled' });
    expect(await queue.wake('default', 'r1')).toBe(false);
    await pass(HOUR_MS);
    expect(ids()).toEqual(['r1']);
  });

  it('that was cancelled while it was being parked is claimed again, and the claim says so', async () => {
    const queue = await queueWith('r1');
    const { last, attempts } = start(queue, {
      attempt: (claim, signal) => {
        const { promise, resolve } = Promise.withResolvers<AttemptOutcome>();
        attempts.push({ claim, signal, settle: resolve, fail: () => {} });
        return promise; // parks, whatever the signal says
      },
    });
    await settled();
    await queue.cancel('default', 'r1');
    last('r1').settle({ kind: 'parked', until, requests: [] });
    await settled();
    expect(attempts.map(({ claim }) => claim.isCancelled)).toEqual([false, true]);
  });
});

describe('a run that is cancelled', () => {
  it('in the queue is never started', async () => {
    const queue = await queueWith('r1', 'r2');
    const { last, ids } = start(queue, { slots: 1 });
    await settled();
    await queue.cancel('default', 'r2');
    last('r1').settle(succeeded);
    await pass(HOUR_MS);
    expect(ids()).toEqual(['r1']);
  });

  it('while it runs has its attempt aborted with that reason, and other runs continue', async () => {
    const queue = await queueWith('r1', 'r2');
    const { last } = start(queue);
    await settled();
    await queue.cancel('default', 'r1');
    expect([last('r1').signal.reason, last('r2').signal.aborted]).toEqual(['cancelled', false]);
  });

  it('does not wait for the back-off of an attempt that failed', async () => {
    const queue = await queueWith('r1');
    const { last } = start(queue);
    await settled();
    last('r1').fail(new Error('the model is away'));
    await settled();
    expect(queue.called('release')).toEqual([]);
    await queue.cancel('default', 'r1');
    await settled();
    expect(queue.called('release')).toEqual([['r1', { counts: true }]]);
    expect(last('r1').claim).toMatchObject({ attempt: 2, isCancelled: true });
  });

  it('is not a run whose status changes for another reason', async () => {
    const queue = await queueWith('r1');
    const { last } = start(queue);
    await settled();
    await queue.mark(last('r1').claim, { status: 'waiting' });
    expect(last('r1').signal.aborted).toBe(false);
  });
});

describe('leases', () => {
  it('are renewed three times in their time, of every run, as long as it runs', async () => {
    const queue = await queueWith('r1', 'r2');
    const { last } = start(queue);
    await pass(LEASE_MS);
    expect(queue.called('renew').map(([id]) => id)).toEqual(['r1', 'r2', 'r1', 'r2', 'r1', 'r2']);
    expect(queue.called('renew')[0]?.[1]).toEqual({ leaseMs: LEASE_MS });
    last('r1').settle(succeeded);
    await pass(LEASE_MS / 3);
    expect(queue.called('renew').slice(6)).toEqual([['r2', { leaseMs: LEASE_MS }]]);
  });

  it('of other runs are renewed while one renewal has no answer', async () => {
    const queue = await queueWith('r1', 'r2');
    queue.hold('renew');
    start(queue);
    await pass(2 * LEASE_MS);
    expect(queue.called('renew').filter(([id]) => id === 'r2')).toHaveLength(6);
  });

  it('that ended abort the attempt as lost', async () => {
    const queue = await queueWith('r1');
    const { last } = start(queue);
    await settled();
    await queue.finish(last('r1').claim, success('by another node'));
    await pass(LEASE_MS / 3);
    expect(last('r1').signal.reason).toBe('lost');
  });

  it('are kept where a renewal fails: the queue may answer the next one', async () => {
    const queue = await queueWith('r1');
    queue.fail('renew', new Error('timeout'));
    const { last } = start(queue);
    await pass(LEASE_MS);
    expect([last('r1').signal.aborted, queue.called('renew').length]).toEqual([false, 3]);
  });

  it('that the queue reports as lost abort the attempt at once, and nothing is written for it', async () => {
    const queue = await queueWith('r1');
    const lost = new AbortController();
    const claim = queue.claim.bind(queue);
    vi.spyOn(queue, 'claim').mockImplementation(async (...given) =>
      (await claim(...given)).map((one) => ({ ...one, lost: lost.signal })),
    );
    const { last, logged, dispatcher } = start(queue);
    await settled();
    lost.abort('node n2 has it');
    await settled();
    expect([last('r1').signal.reason, dispatcher.running]).toEqual(['lost', 0]);
    expect(logged).toEqual(['warn run_lost node n2 has it']);
    expect([queue.called('release'), queue.called('park')]).toEqual([[], []]);
  });
});

describe('draining', () => {
  it('starts nothing more, and waits for what runs', async () => {
    const queue = await queueWith('r1', 'r2');
    const { dispatcher, last, ids } = start(queue, { slots: 1 });
    await settled();
    let isDrained = false;
    const drained = dispatcher.drain(10_000).then(() => {
      isDrained = true;
    });
    await pass(9_000);
    expect(isDrained).toBe(false);
    last('r1').settle(succeeded);
    await drained;
    queue.notify();
    await pass(HOUR_MS);
    expect([ids(), await statusOf(queue, 'r1'), await statusOf(queue, 'r2')]).toEqual([['r1'], 'succeeded', 'queued']);
  });

  it('releases what still runs after the grace period, and counts no attempt', async () => {
    const queue = await queueWith('r1');
    const { dispatcher, last, logged } = start(queue);
    await settled();
    const drained = dispatcher.drain(10_000);
    await pass(9_999);
    expect(last('r1').signal.aborted).toBe(false);
    await pass(1);
    await drained;
    expect(last('r1').signal.reason).toBe('draining');
    expect(await queue.find('r1')).toMatchObject({ status: 'queued', attempts: 0 });
    expect(logged).toEqual([]);
  });

  it('waits for a claim that is in flight, and for the runs of it', async () => {
    const queue = await queueWith('r1');
    const goOn = queue.hold('claim');
    const { dispatcher, ids } = start(queue);
    const drained = dispatcher.drain(1_000);
    await settled();
    goOn();
    await pass(1_000);
    await drained;
    expect([ids(), await statusOf(queue, 'r1'), dispatcher.running]).toEqual([['r1'], 'queued', 0]);
  });

  it('does not wait for the back-off of an attempt that failed', async () => {
    const queue = await queueWith('r1');
    const { dispatcher, last } = start(queue);
    await settled();
    const drained = dispatcher.drain(10_000);
    last('r1').fail(new Error('the model is away'));
    await settled();
    await drained;
    expect(queue.called('release')).toEqual([['r1', { counts: true }]]);
  });

  it('tries once to store an outcome: the journal has it', async () => {
    const queue = await queueWith('r1');
    queue.fail('finish', new Error('disk full'), 9);
    const { dispatcher, last, logged } = start(queue);
    await settled();
    const drained = dispatcher.drain(10_000);
    last('r1').settle(succeeded);
    await settled();
    await drained;
    expect(queue.called('finish')).toHaveLength(1);
    expect(logged).toEqual(['error not_stored disk full', 'info run_ended']);
  });

  it('leaves no timer and no listener behind', async () => {
    const queue = await queueWith('r1');
    const { dispatcher, last } = start(queue);
    await settled();
    expect(queue.listeners).toBe(2);
    last('r1').settle(succeeded);
    await settled();
    await dispatcher.drain(10_000);
    expect([queue.listeners, vi.getTimerCount()]).toEqual([0, 0]);
  });

  it('renews leases until the last run has ended', async () => {
    const queue = await queueWith('r1');
    const { dispatcher } = start(queue);
    await settled();
    const drained = dispatcher.drain(LEASE_MS);
    await pass(LEASE_MS);
    await drained;
    expect(queue.called('renew').length).toBeGreaterThanOrEqual(2);
  });
});
