import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { Claim, NewRun, QueueKey, RunEnding, RunQueue } from '../../../src/server/queue/run-queue.ts';

/** What every engine of a queue must do. */
export interface QueueUnderTest {
  open(options?: { readonly maxQueued?: number }): Promise<RunQueue>;
  /** The same queue, as another process finds it after this one was killed. */
  reopen(queue: RunQueue): Promise<RunQueue>;
  /** Of every claim. */
  readonly leaseMs: number;
  /** After so long without a run, there is none to be claimed. */
  readonly quietMs: number;
  /** Lets time pass. */
  pass(ms: number): Promise<void>;
}

const anybody = () => true;
const bytes = (text: string) => new TextEncoder().encode(text);

export function newRun(id: string, more: Partial<NewRun> = {}): NewRun {
  return {
    id,
    namespace: 'default',
    task: 'hello',
    revision: 1,
    wasm: 'a'.repeat(64),
    pool: 'default',
    submittedBy: 'alice',
    input: bytes(`input of ${id}`),
    maxAttempts: 3,
    ...more,
  };
}

export const success = (result: string): RunEnding => ({
  status: 'succeeded',
  exit: { reason: 'exit', code: 0, message: null },
  cost: { model_calls: 1, tool_calls: 0, tokens: { total_tokens: 7 } },
  result: bytes(result),
});

type HasRoom = (line: QueueKey) => boolean;

/** Whether leases are short enough to outlive; else none ends during a test, however busy the machine is. */
type Leases = 'end' | 'last';

export function queueContract(name: string, start: (leases: Leases) => QueueUnderTest): void {
  describe(`${name} as a queue`, () => {
    let under: QueueUnderTest;
    const open: RunQueue[] = [];
    const setUp = async ({ leases = 'last', ...options }: { leases?: Leases; maxQueued?: number } = {}) => {
      under = start(leases);
      const queue = await under.open(options);
      open.push(queue);
      return { under, queue };
    };
    afterEach(async () => {
      for (const queue of open.splice(0)) await queue.close();
    });
    /** As many as come, until none does for a while. */
    const claim = async (queue: RunQueue, max = 10, { pool = 'default', hasRoom = anybody as HasRoom } = {}) => {
      const claims: Claim[] = [];
      let quietAt = performance.now() + under.quietMs;
      for (;;) {
        const more = await queue.claim('n1', pool, max - claims.length, under.leaseMs, hasRoom);
        claims.push(...more);
        if (more.length > 0) quietAt = performance.now() + under.quietMs;
        if (claims.length >= max || performance.now() >= quietAt) return claims;
        await delay(10);
      }
    };
    /** The notification that a run has started may be delayed. */
    const isRunning = (queue: RunQueue, { run }: Claim) =>
      expect.poll(() => queue.get(run.namespace, run.id)).toMatchObject({ status: 'running' });
    const ids = (claims: readonly Claim[]) => claims.map(({ run }) => run.id);

    it('keeps the first submitter of a retry [approval.self]', async () => {
      const { queue } = await setUp();
      await queue.submit(newRun('r1', { submittedBy: 'bob', retryOf: 'r0', firstSubmittedBy: 'alice' }));
      const [claimed] = await claim(queue, 1);
      expect(claimed?.run).toMatchObject({ submitted_by: 'bob', first_submitted_by: 'alice', retry_of: 'r0' });
    });

    it('gives a run to one claim, with its input, and keeps its result', async () => {
      const { queue } = await setUp();
      const submitted = await queue.submit(newRun('r1'));
      expect(submitted).toMatchObject({ created: true, run: { id: 'r1', status: 'queued', attempts: 0, node: null } });
      const [first, ...more] = await claim(queue);
      expect(more).toEqual([]);
      expect(first).toMatchObject({ attempt: 1, isCancelled: false, run: { id: 'r1', status: 'running', node: 'n1' } });
      expect(await claim(queue)).toEqual([]);
      expect(new TextDecoder().decode((await queue.input('r1')) ?? undefined)).toBe('input of r1');
      expect(await queue.result('r1')).toBeNull();
      expect(await queue.finish(first as Claim, success('done'))).toBe(true);
      expect(new TextDecoder().decode((await queue.result('r1')) ?? undefined)).toBe('done');
      expect(await queue.get('default', 'r1')).toMatchObject({
        status: 'succeeded',
        exit: { reason: 'exit', code: 0 },
        cost: { tokens: { total_tokens: 7 } },
        result_bytes: 4,
      });
    });

    it('takes the same submission once, and refuses the same id with another input', async () => {
      const { queue } = await setUp();
      const [one, two] = await Promise.all([queue.submit(newRun('r1')), queue.submit(newRun('r1'))]);
      expect([one.created, two.created].sort()).toEqual([false, true]);
      expect((await queue.submit(newRun('r1'))).created).toBe(false);
      await expect(queue.submit(newRun('r1', { input: bytes('other') }))).rejects.toMatchObject({
        code: 'other_input',
      });
      expect(ids(await claim(queue))).toEqual(['r1']);
    });

    it('refuses what the line has no room for, also when many come at once', async () => {
      const { queue } = await setUp({ maxQueued: 3 });
      const all = await Promise.allSettled([1, 2, 3, 4, 5].map((n) => queue.submit(newRun(`r${n}`))));
      expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
      const refused = all.filter((one) => one.status === 'rejected');
      for (const { reason } of refused) expect(reason).toMatchObject({ code: 'full' });
      const [first, ...others] = (await claim(queue)) as [Claim, ...Claim[]];
      expect(others).toHaveLength(2);
      await queue.finish(first, success('one place'));
      const again = () =>
        queue.submit(newRun('r6')).then(
          ({ created }) => created,
          () => false,
        );
      await expect.poll(again).toBe(true);
    });

    it('gives out the runs of a line in their order, and passes over lines without room', async () => {
      const { queue } = await setUp();
      await queue.submit(newRun('c1', { task: 'other' }));
      for (const id of ['a1', 'a2', 'a3']) await queue.submit(newRun(id));
      const taken = await claim(queue, 2, { hasRoom: ({ task }) => task === 'hello' });
      expect(ids(taken)).toEqual(['a1', 'a2']);
      const rest = new Set(ids(await claim(queue)));
      // What had no room comes back later where others may have some.
      while (rest.size < 2) for (const id of ids(await claim(queue))) rest.add(id);
      expect(rest).toEqual(new Set(['a3', 'c1']));
    });

    it('keeps pools apart', async () => {
      const { queue } = await setUp();
      await queue.submit(newRun('g1', { pool: 'gpu' }));
      expect(await claim(queue)).toEqual([]);
      expect(ids(await claim(queue, 5, { pool: 'gpu' }))).toEqual(['g1']);
    });

    it('gives a run on whose lease has ended, and the claim before it owns nothing any more', async () => {
      const { queue } = await setUp({ leases: 'end' });
      const { leaseMs } = under;
      await queue.submit(newRun('r1'));
      const [first] = (await claim(queue, 1)) as [Claim];
      await under.pass(leaseMs / 2);
      expect(await queue.renew(first, leaseMs)).toBe(true);
      await under.pass(leaseMs / 2 + 1);
      expect(await claim(queue)).toEqual([]);
      await under.pass(leaseMs);
      const [second] = (await claim(queue, 1)) as [Claim];
      expect(second.attempt).toBe(2);
      expect(await queue.renew(first, leaseMs)).toBe(false);
      expect(await queue.finish(first, success('of the first'))).toBe(false);
      expect(await queue.release(first, { counts: true })).toBe(false);
      expect(await queue.finish(second, success('of the second'))).toBe(true);
      expect(await queue.finish(second, success('again'))).toBe(false);
      expect(new TextDecoder().decode((await queue.result('r1')) ?? undefined)).toBe('of the second');
    });

    it('puts a run back at the head of its line, with or without counting the attempt', async () => {
      const { queue } = await setUp();
      for (const id of ['r1', 'r2']) await queue.submit(newRun(id));
      const [first] = (await claim(queue, 1)) as [Claim];
      expect(await queue.release(first, { counts: false })).toBe(true);
      const [again] = (await claim(queue, 1)) as [Claim];
      expect(again).toMatchObject({ attempt: 1, run: { id: 'r1' } });
      await queue.release(again, { counts: true });
      expect(await claim(queue, 1)).toMatchObject([{ attempt: 2, run: { id: 'r1' } }]);
    });

    it('stores why a run makes no progress and which servers it lacks', async () => {
      const { queue } = await setUp();
      await queue.submit(newRun('r1'));
      const [first] = (await claim(queue, 1)) as [Claim];
      const degraded = [{ server: 'mute', reason: 'tools/list timed out' }];
      await queue.mark(first, { status: 'running', reason: 'server mute: tools/list' });
      expect(await queue.find('r1')).toMatchObject({ status: 'running', status_reason: 'server mute: tools/list' });
      await queue.mark(first, { status: 'running', degraded });
      expect(await queue.find('r1')).toMatchObject({ status_reason: null, degraded });
      await queue.release(first, { counts: false, reason: 'no free file descriptors' });
      const released = { status: 'queued', status_reason: 'no free file descriptors', degraded };
      expect((await queue.list('default', { limit: 1 })).runs).toMatchObject([released]);
      const [second] = (await claim(queue, 1)) as [Claim];
      expect(second.run).toMatchObject({ status_reason: null, degraded });
      await queue.finish(second, { ...success('done'), degraded: [{ server: 'mute', reason: 'exited' }] });
      const ended = { status: 'succeeded', status_reason: null, degraded: [{ server: 'mute', reason: 'exited' }] };
      expect(await queue.find('r1')).toMatchObject(ended);
    });

    it('drops the reason of a run that is cancelled while it waits', async () => {
      const { queue } = await setUp();
      await queue.submit(newRun('r1'));
      const [first] = (await claim(queue, 1)) as [Claim];
      await queue.release(first, { counts: false, reason: 'no free file descriptors' });
      expect(await queue.cancel('default', 'r1')).toMatchObject({ status: 'cancelled', status_reason: null });
    });

    it('cancels a queued run at once, and notifies of the cancellation of a running one', async () => {
      const { queue } = await setUp();
      for (const id of ['r1', 'r2']) await queue.submit(newRun(id));
      const [first] = (await claim(queue, 1)) as [Claim];
      await isRunning(queue, first);
      const changes: unknown[] = [];
      queue.onChange((change) => changes.push(change));
      expect(await queue.cancel('default', 'r2')).toMatchObject({ status: 'cancelled', exit: { reason: 'cancelled' } });
      expect(await queue.cancel('default', 'r1')).toMatchObject({ status: 'running' });
      expect(changes).toContainEqual({ id: 'r1', status: 'running', cancel: true });
      expect(await queue.cancel('other', 'r1')).toBeNull();
      expect(await queue.cancel('default', 'unknown')).toBeNull();
      expect(await claim(queue)).toEqual([]);
      await queue.finish(first, { ...success(''), status: 'cancelled' });
      expect(await queue.cancel('default', 'r1')).toMatchObject({ status: 'cancelled' });
      expect(queue.facts()).toMatchObject({ byStatus: { queued: 0, running: 0, cancelled: 2 }, oldestQueuedMs: null });
    });

    it('loses no cancellation that comes while the run is being claimed', async () => {
      const { queue } = await setUp();
      await queue.submit(newRun('r1'));
      const changes: string[] = [];
      queue.onChange(({ id, cancel }) => cancel && changes.push(id));
      const claiming = claim(queue);
      const cancelling = queue.cancel('default', 'r1');
      const [[claimed], cancelled] = await Promise.all([claiming, cancelling]);
      if (claimed === undefined) expect(cancelled).toMatchObject({ status: 'cancelled' });
      else
        await expect
          .poll(() => claimed.isCancelled || changes.includes('r1') || claimed.lost?.aborted === true)
          .toBe(true);
    });

    it('has everything again after its process was killed: what ran waits first, and its cancellation is known', async () => {
      const { queue } = await setUp({ leases: 'end' });
      for (const id of ['r1', 'r2', 'r3', 'r4']) await queue.submit(newRun(id));
      const [one, two] = (await claim(queue, 2)) as [Claim, Claim];
      await queue.finish(one, success('kept'));
      await isRunning(queue, two);
      await queue.mark(two, { status: 'running', reason: 'server mute: tools/list, 1 s of 60' });
      await queue.cancel('default', two.run.id);
      const again = await under.reopen(queue);
      open.push(again);
      // A run that returned to the queue does not wait for a server any more.
      const waiting = (await again.list('default', { limit: 9 })).runs.filter(({ status }) => status === 'queued');
      for (const { status_reason } of waiting) expect(status_reason ?? null).toBeNull();
      expect(new TextDecoder().decode((await again.result('r1')) ?? undefined)).toBe('kept');
      const { queued, running, succeeded } = again.facts().byStatus;
      expect({ underway: queued + running, succeeded }).toEqual({ underway: 3, succeeded: 1 });
      await under.pass(under.leaseMs);
      const claims = await claim(again);
      // With other claimants no order is guaranteed.
      if (again.isShared) expect(ids(claims).sort()).toEqual(['r2', 'r3', 'r4']);
      else expect(ids(claims)).toEqual(['r2', 'r3', 'r4']);
      expect(claims.find(({ run }) => run.id === 'r2')).toMatchObject({ attempt: 2, isCancelled: true });
    });

    it('parks a run without counting the attempt, and gives it on when it is woken', async () => {
      const { queue } = await setUp();
      for (const id of ['r1', 'r2']) await queue.submit(newRun(id));
      const [first] = (await claim(queue, 1)) as [Claim];
      await queue.mark(first, { status: 'waiting' });
      const changes: unknown[] = [];
      queue.onChange((change) => changes.push(change));
      const until = { kind: 'approval', request: 'abc-1' } as const;
      expect(await queue.park(first, until)).toBe(true);
      expect(changes).toContainEqual({ id: 'r1', status: 'parked', cancel: false });
      expect(await queue.renew(first, under.leaseMs)).toBe(false);
      expect(await queue.finish(first, success('late'))).toBe(false);
      expect(await queue.park(first, until)).toBe(false);
      expect(queue.facts().byStatus).toMatchObject({ queued: 1, running: 0, waiting: 0, parked: 1 });
      expect((await queue.list('default', { limit: 5, status: 'parked' })).runs.map(({ id }) => id)).toEqual(['r1']);
      expect(await queue.forget(Date.now() + 1e9)).toEqual([]);
      expect(await queue.wake('other', 'r1')).toBe(false);
      expect(await queue.wake('default', 'r2')).toBe(false);
      expect(await queue.wake('default', 'unknown')).toBe(false);
      const both = await Promise.all([queue.wake('default', 'r1'), queue.wake('default', 'r1')]);
      expect(both.sort()).toEqual([false, true]);
      const claims = await claim(queue);
      // What many nodes share has no head of a line.
      if (!queue.isShared) expect(ids(claims)).toEqual(['r1', 'r2']);
      const woken = claims.find(({ run }) => run.id === 'r1') as Claim;
      expect(woken).toMatchObject({ attempt: 1, run: { attempts: 1 } });
      expect(await queue.finish(woken, success('done'))).toBe(true);
      expect((await queue.get('default', 'r1'))?.parked_for ?? null).toBeNull();
    });

    it('lists the parked runs of a pool in pages, and retains them after its process was killed', async () => {
      const { under, queue } = await setUp();
      for (let n = 1; n <= 5; n++) await queue.submit(newRun(`r${n}`));
      await queue.submit(newRun('g1', { pool: 'gpu' }));
      const [gpu] = (await claim(queue, 1, { pool: 'gpu' })) as [Claim];
      const claims = [...(await claim(queue)), gpu];
      expect(claims).toHaveLength(6);
      for (const one of claims) expect(await queue.park(one, { kind: 'time', atMs: 7 })).toBe(true);
      const again = await under.reopen(queue);
      expect(again.facts().byStatus).toMatchObject({ queued: 0, parked: 6 });
      expect(await claim(again)).toEqual([]);
      const found: unknown[] = [];
      for (let cursor: string | null = null, pages = 0; pages === 0 || cursor !== null; pages++) {
        const page = await again.parked('default', cursor, 2);
        expect(page.runs.length).toBeLessThanOrEqual(2);
        found.push(...page.runs);
        ({ cursor } = page);
      }
      expect(found).toHaveLength(5);
      expect(found).toContainEqual({ namespace: 'default', id: 'r3', until: { kind: 'time', atMs: 7 } });
      expect((await again.parked('gpu', null, 10)).runs.map(({ id }) => id)).toEqual(['g1']);
      open.push(again);
    });

    it('cancels a parked run at once, and loses no cancellation that comes while it is being parked', async () => {
      const { queue } = await setUp();
      for (const id of ['r1', 'r2']) await queue.submit(newRun(id));
      const claims = await claim(queue);
      const [one, two] = ['r1', 'r2'].map((id) => claims.find(({ run }) => run.id === id)) as [Claim, Claim];
      await queue.park(one, { kind: 'time', atMs: 7 });
      expect(await queue.cancel('default', 'r1')).toMatchObject({ status: 'cancelled', exit: { reason: 'cancelled' } });
      expect(await queue.wake('default', 'r1')).toBe(false);
      expect((await queue.parked('default', null, 10)).runs).toEqual([]);
      // Before that it would be cancelled as a run that waits, and there would be nothing to park.
      await isRunning(queue, two);
      await queue.cancel('default', 'r2');
      expect(await queue.park(two, { kind: 'time', atMs: 7 })).toBe(true);
      expect(await claim(queue)).toMatchObject([{ isCancelled: true, run: { id: 'r2' } }]);
      expect(queue.facts().byStatus).toMatchObject({ queued: 0, parked: 0, cancelled: 1, running: 1 });
    });

    it('lists newest first, by pages, by task and status, in one namespace', async () => {
      const { queue } = await setUp();
      for (let n = 1; n <= 5; n++) await queue.submit(newRun(`r${n}`, { task: n % 2 ? 'odd' : 'even' }));
      await queue.submit(newRun('x1', { namespace: 'other' }));
      const first = await queue.list('default', { limit: 2 });
      expect(first.runs.map(({ id }) => id)).toEqual(['r5', 'r4']);
      const rest = await queue.list('default', { limit: 10, cursor: first.cursor ?? undefined });
      expect(rest).toMatchObject({ cursor: null, runs: [{ id: 'r3' }, { id: 'r2' }, { id: 'r1' }] });
      const even = await queue.list('default', { limit: 10, task: 'even', status: 'queued' });
      expect(even.runs.map(({ id }) => id)).toEqual(['r4', 'r2']);
      expect((await queue.list('default', { limit: 10, status: 'dead' })).runs).toEqual([]);
    });

    it('counts tokens by scope and day, over restarts, and enforces a limit that callers share [cluster.budgets]', async () => {
      const { queue } = await setUp();
      const day = '2026-11-17';
      await queue.spend('task a', day, 70);
      await queue.spend('task a', day, 5);
      expect(await Promise.all([queue.spent('task a', day), queue.spent('task b', day)])).toEqual([75, 0]);
      expect(await queue.spent('task a', '2026-11-18')).toBe(0);
      const again = await under.reopen(queue);
      open.push(again);
      expect(await again.spent('task a', day)).toBe(75);
      if (queue.reserve === undefined || again.reserve === undefined) return expect(queue.isShared).toBe(false);
      const both = [queue, again, queue, again].map((one) => one.reserve?.('task a', day, 10, 100));
      const taken = (await Promise.all(both)).filter((spent) => spent === null);
      // A try that did not fit may have kept another one out; none lets too much in.
      expect(taken.length).toBeGreaterThanOrEqual(1);
      expect(taken.length).toBeLessThanOrEqual(2);
      expect(await again.spent('task a', day)).toBe(75 + 10 * taken.length);
      await again.spend('task a', day, -4);
      expect(await queue.spent('task a', day)).toBe(71 + 10 * taken.length);
    });

    it('keeps inputs and results that are larger than a message', async () => {
      const { queue } = await setUp();
      const large = new Uint8Array(3 * 1024 * 1024).fill(7);
      await queue.submit(newRun('r1', { input: large }));
      const [one] = (await claim(queue, 1)) as [Claim];
      expect(Buffer.compare((await queue.input('r1')) ?? Buffer.of(), large)).toBe(0);
      await queue.finish(one, { ...success(''), result: large });
      expect(Buffer.compare((await queue.result('r1')) ?? Buffer.of(), large)).toBe(0);
    });

    it('forgets what ended before, with inputs and results, and nothing that has not ended', async () => {
      const { queue } = await setUp();
      for (const id of ['r1', 'r2']) await queue.submit(newRun(id));
      const [one] = (await claim(queue, 1)) as [Claim];
      await queue.finish(one, success('old'));
      const gone = await queue.forget(Date.now() + 30_000);
      expect(gone.map(({ id }) => id)).toEqual(['r1']);
      expect(await queue.get('default', 'r1')).toBeNull();
      expect(await queue.result('r1')).toBeNull();
      expect(await queue.input('r1')).toBeNull();
      expect(await queue.get('default', 'r2')).toMatchObject({ status: 'queued' });
    });
  });
}
