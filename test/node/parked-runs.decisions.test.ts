import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ApprovalClient, ApprovalConnection, type BoundRequest } from '../../src/agent/approvals/client.ts';
import type { JsonObject } from '../../src/base/json.ts';
import type { AttemptOutcome } from '../../src/node/attempt.ts';
import { Dispatcher } from '../../src/node/dispatcher.ts';
import { ParkedRuns } from '../../src/node/parked-runs.ts';
import { LongWaits } from '../../src/run/long-waits.ts';
import { FakeRemote } from '../agent/approvals/fake-remote.ts';
import { askedCall, boundOf, type OpenedQueue, openQueue } from '../agent/approvals/open-queue.ts';
import { newRun, success } from '../server/queue/queue-contract.ts';
import { FakeRunQueue } from '../support/fake-run-queue.ts';

/*
 * The node's and the registry's real parts together: dispatcher, parking, wake-ups, requests and grants. Fakes are the
 * wire between them, the guest, the run queue and the clock.
 */

const PARK_AFTER_MS = 150;
const DAY_MS = 86_400_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

const args: JsonObject = { invoice: 'one' };

/** A node whose guests pay once where they are allowed to, and succeed either way. */
function startNode(queue: FakeRunQueue, registry: OpenedQueue, paid: string[]) {
  const approvals = new ApprovalConnection(new FakeRemote(registry), () => {});
  const log = () => {};
  const parked = new ParkedRuns({ queue, pool: 'default', approvals, log });
  const attempt = (run: string, signal: AbortSignal) => {
    const { promise, resolve } = Promise.withResolvers<AttemptOutcome>();
    const waits = new LongWaits(
      {
        parkAfterMs: PARK_AFTER_MS,
        onWaiting: () => {},
        onPark: (until, requests) => resolve({ kind: 'parked', until, requests }),
      },
      { underway: () => 0, computedMs: async () => 0, park: () => void client.close() },
    );
    const client = new ApprovalClient({
      connection: approvals,
      waits: (wait) => waits.approval(wait),
      fileWithinMs: 5_000,
    });
    const bound = boundOf(askedCall({ run }));
    const question = {
      ...{ server: 'bank', tool: 'pay', ordinal: bound.ordinal, callId: 'call-1', arguments: args },
      ...{ bound, signal, isResumable: () => true, cause: { code: 'always', text: '' }, definition: {} },
    } as unknown as BoundRequest;
    void client.ask(question).then(async ({ grant }) => {
      if (grant !== null && (await grant.redeem(bound, args)) === null) paid.push(run);
      waits.close();
      await client.close();
      resolve({ kind: 'ended', ending: success('done') });
    });
    return promise;
  };
  const dispatcher = new Dispatcher({
    ...{ queue, node: 'n1', pool: 'default', slots: 16, runsPerCaller: 1_000, leaseMs: 30_000, log },
    concurrency: () => 1_000,
    attempt: ({ run }, signal) => attempt(run.id, signal),
    onParked: (run, requests) => parked.parked(run, requests),
  });
  dispatcher.start();
  return async () => {
    const drained = dispatcher.drain(0);
    await pass(10_000);
    await drained;
    await parked.close();
    const closed = approvals.close();
    await pass(10_000);
    await closed;
  };
}

async function site() {
  const registry = await openQueue();
  let queue = new FakeRunQueue();
  // As long as a disk takes.
  const slowly = (one: FakeRunQueue) => {
    const park = one.park.bind(one);
    vi.spyOn(one, 'park').mockImplementation(async (...given) => {
      await new Promise((resolve) => setTimeout(resolve, 10));
      return park(...given);
    });
    return one;
  };
  slowly(queue);
  const paid: string[] = [];
  let stop = startNode(queue, registry, paid);
  await pass(0);
  const requests = async (run: string) =>
    (await registry.store.list()).records
      .filter((approval) => approval.run === run)
      .sort((a, b) => a.approval_id.localeCompare(b.approval_id));
  return {
    registry,
    paid,
    requests,
    submit: async (id: string) => void (await queue.submit(newRun(id))),
    get: (id: string) => queue.find(id),
    request: async (run: string) => (await requests(run)).at(-1)?.approval_id ?? '',
    stopNode: () => stop(),
    startNode: () => {
      queue = slowly(queue.restarted());
      stop = startNode(queue, registry, paid);
    },
  };
}

describe('a run that waits for a decision', () => {
  it('is not parked where the decision comes soon, and pays', async () => {
    const { submit, request, get, registry, paid } = await site();
    await submit('r1');
    await pass(100);
    await registry.ann.decide(await request('r1'), 'allow_once');
    await pass(10);
    expect([await get('r1'), paid]).toMatchObject([{ status: 'succeeded', attempts: 1 }, ['r1']]);
  });

  it('loses no decision that comes before, while or after it is parked [node.park.race]', async () => {
    const { submit, request, get, registry, paid } = await site();
    const parkedBefore: boolean[] = [];
    // It is parked after 250 ms, which takes 10 ms, and asked about 20 ms later.
    for (let afterMs = 1; afterMs <= 400; afterMs += 3) {
      const run = `r${afterMs}`;
      await submit(run);
      await pass(afterMs);
      parkedBefore.push((await get(run))?.status === 'parked');
      await registry.ann.decide(await request(run), 'allow_once');
      await pass(1_000);
      expect(await get(run), `decided after ${afterMs} ms`).toMatchObject({ status: 'succeeded', attempts: 1 });
      expect(paid.splice(0), `decided after ${afterMs} ms`).toEqual([run]);
    }
    expect(new Set(parkedBefore)).toEqual(new Set([false, true]));
  });

  it('pays once where two approvers allow it at the same moment [node.park]', async () => {
    const { submit, request, get, registry, paid } = await site();
    await submit('r1');
    await pass(1_000);
    expect(await get('r1')).toMatchObject({ status: 'parked', attempts: 0 });
    const id = await request('r1');
    const both = await Promise.allSettled([
      registry.ann.decide(id, 'allow_once'),
      registry.bob.decide(id, 'allow_once'),
    ]);
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    await pass(1_000);
    expect([await get('r1'), paid]).toMatchObject([{ status: 'succeeded' }, ['r1']]);
  });

  it('is woken among two hundred that are allowed at once, and each pays once [node.park.many]', async () => {
    const { submit, request, get, registry, paid } = await site();
    const runs = Array.from({ length: 200 }, (_, n) => `r${n}`);
    for (const run of runs) await submit(run);
    await pass(10_000);
    for (const run of runs) expect(await get(run)).toMatchObject({ status: 'parked' });
    const ids = await Promise.all(runs.map(request));
    await Promise.all(ids.map((id) => registry.ann.decide(id, 'allow_once')));
    await pass(10_000);
    for (const run of runs) expect(await get(run)).toMatchObject({ status: 'succeeded', attempts: 1 });
    expect([...paid].sort()).toEqual([...runs].sort());
  });
});

describe('a run whose node is away', () => {
  const awayFor = async (days: number, decision: 'allow_once' | 'allow_session') => {
    const all = await site();
    await all.submit('r1');
    await pass(1_000);
    await all.stopNode();
    const id = await all.request('r1');
    await all.registry.ann.decide(id, decision);
    vi.setSystemTime(Date.now() + days * DAY_MS);
    await pass(30_000);
    all.startNode();
    await pass(10_000);
    return { ...all, id };
  };

  it.each(['allow_once', 'allow_session'] as const)(
    'finds the grant of two days ago, good for its call and once: %s [node.park.away]',
    async (decision) => {
      const { get, paid, requests, id } = await awayFor(2, decision);
      expect(await get('r1')).toMatchObject({ status: 'succeeded', attempts: 1 });
      expect(paid).toEqual(['r1']);
      expect(await requests('r1')).toMatchObject([{ approval_id: id, status: 'used' }]);
    },
  );

  it('asks again where the grant is older than the registry lets it be [node.park.away]', async () => {
    const { get, paid, requests, id, registry } = await awayFor(8, 'allow_once');
    const [first, second] = await requests('r1');
    expect([first, second]).toMatchObject([{ approval_id: id, status: 'expired' }, { status: 'waiting' }]);
    expect([paid, (await get('r1'))?.status]).toEqual([[], 'parked']);
    await registry.ann.decide(second?.approval_id ?? '', 'deny');
    await pass(1_000);
    expect([paid, (await get('r1'))?.status]).toEqual([[], 'succeeded']);
  });
});
