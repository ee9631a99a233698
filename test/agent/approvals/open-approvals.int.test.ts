import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { closed, newRequest } from '../../../src/agent/approvals/approval-record.ts';
import { OpenApprovals } from '../../../src/agent/approvals/open-approvals.ts';
import type { Approval } from '../../../src/server/records/approval.ts';
import { type RegistryStore, StoreError } from '../../../src/server/store/store.ts';
import { askedCall, newStore } from './open-queue.ts';

// Its own timers are out of reach of the fake clock.
vi.mock('node:timers/promises', () => ({
  setTimeout: (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms)),
}));

const KEEP_MS = 100_000;
const WAIT_MS = 20_000;

beforeEach(() => void vi.useFakeTimers({ now: Date.parse('2026-01-02T03:04:05.000Z') }));
const opened: OpenApprovals[] = [];
afterEach(() => {
  for (const known of opened.splice(0)) known.close();
  vi.useRealTimers();
});
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

const request = (run: string): Approval =>
  newRequest(askedCall({ run }), {
    ...{ round: 1, epoch: 'e', requestedBy: null, rule: null, changes: [] },
    ...{ now: Date.now(), waitMs: WAIT_MS, grantMs: 1 },
  });

async function open({ maxKept = 100, store = newStore(), timely = vi.fn((_: Approval) => Promise.resolve()) } = {}) {
  const known = new OpenApprovals(store, { keepMs: KEEP_MS, maxKept, now: Date.now, timely });
  opened.push(known);
  const { revision, records } = await store.list();
  await known.start(revision, records);
  return { known, store, timely };
}

/** Written by another process. */
const write = (store: RegistryStore<Approval>, approval: Approval) => store.upsert(approval);
const runsOf = async (store: RegistryStore<Approval>) => (await store.list()).records.map(({ run }) => run).sort();

describe('requests of a store', () => {
  it('are known whoever writes them, and not any more when they are removed', async () => {
    const { known, store } = await open();
    const { approval_id: id } = (await write(store, request('r1'))).record;
    await pass(0);
    expect([known.waiting, known.openOne(id)?.run]).toEqual([1, 'r1']);
    await store.remove(id);
    await pass(0);
    expect([known.waiting, known.openOne(id), [...known.open]]).toEqual([0, undefined, []]);
  });

  it('are counted as waiting where they wait, and are open where they are granted', async () => {
    const store = newStore();
    await write(store, request('r1'));
    await write(store, { ...request('r2'), status: 'granted' });
    await write(store, closed(request('r3'), 'used'));
    const { known } = await open({ store });
    expect([known.waiting, [...known.open].map(({ run }) => run).sort()]).toEqual([1, ['r1', 'r2']]);
  });

  it('are checked at the start, and again when the first of them is due', async () => {
    const store = newStore();
    await write(store, request('r1'));
    const { timely } = await open({ store });
    expect(timely).toHaveBeenCalledTimes(1);
    await pass(WAIT_MS - 1);
    expect(timely).toHaveBeenCalledTimes(1);
    await pass(1);
    expect(timely).toHaveBeenCalledTimes(2);
  });

  it('are checked every 30 s where nothing is due, and not more often', async () => {
    const { store, known, timely } = await open();
    known.remember((await write(store, { ...request('r1'), expires_at_ms: Date.now() + 86_400_000 })).record);
    await pass(300_000);
    expect(timely).toHaveBeenCalledTimes(10);
  });

  it('that are due and cannot be ended are tried again twice in a second, and not in a loop', async () => {
    const timely = vi.fn(() => Promise.reject(new StoreError('not_stored', 'disk full')));
    const store = newStore();
    await write(store, request('r1'));
    await open({ store, timely });
    await pass(WAIT_MS + 1_050);
    expect(timely).toHaveBeenCalledTimes(1 + 3); // at the start, when it is due, and twice after that
  });

  it('that are closed are removed after their time', async () => {
    const { store, known } = await open();
    known.remember((await write(store, closed(request('r1'), 'used'))).record);
    await pass(KEEP_MS - 1);
    expect(await runsOf(store)).toEqual(['r1']);
    await pass(30_000);
    expect(await runsOf(store)).toEqual([]);
  });

  it('that are closed are removed beyond the bound, oldest first', async () => {
    const { store, known } = await open({ maxKept: 2 });
    for (const run of ['r1', 'r2', 'r3', 'r4']) {
      known.remember((await write(store, closed(request(run), 'denied'))).record);
      await pass(1_000);
    }
    await write(store, { ...request('r5'), expires_at_ms: Date.now() + 86_400_000 });
    await pass(30_000);
    expect(await runsOf(store)).toEqual(['r3', 'r4', 'r5']);
  });

  it('that could not be removed are removed later', async () => {
    const { store, known } = await open();
    known.remember((await write(store, closed(request('r1'), 'used'))).record);
    const apply = vi.spyOn(store, 'apply').mockRejectedValueOnce(new StoreError('not_stored', 'disk full'));
    await pass(KEEP_MS + 60_000);
    expect([apply.mock.calls.length, await runsOf(store)]).toEqual([2, []]);
  });

  it('that another process has removed already are not removed twice', async () => {
    const { store, known } = await open();
    const { record } = await write(store, closed(request('r1'), 'used'));
    known.remember(record);
    await store.remove(record.approval_id);
    known.remember(record); // the removal was seen before the write
    const apply = vi.spyOn(store, 'apply');
    await pass(KEEP_MS + 30_000);
    expect(apply).not.toHaveBeenCalled();
  });

  it('are followed again where the watch breaks, from the beginning', async () => {
    const store = newStore();
    const watch = store.watch.bind(store);
    const since: number[] = [];
    vi.spyOn(store, 'watch').mockImplementation((at, signal) => {
      since.push(at);
      if (since.length > 1) return watch(at, signal);
      return { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new StoreError('lagging', 'too slow')) }) };
    });
    const { known } = await open({ store });
    await write(store, request('r1'));
    expect(known.waiting).toBe(0);
    await pass(499);
    expect(known.waiting).toBe(0);
    await pass(1);
    expect(known.waiting).toBe(1);
    expect(since).toEqual([0, 0]);
  });

  it('are not followed where the store was closed', async () => {
    const { store } = await open();
    const watch = vi.spyOn(store, 'watch');
    await store.close();
    await pass(60_000);
    expect(watch).not.toHaveBeenCalled();
  });
});
