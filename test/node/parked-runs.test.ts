import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ApprovalConnection, DecisionEvent } from '../../src/agent/approvals/client.ts';
import { ParkedRuns } from '../../src/node/parked-runs.ts';
import type { Claim, ParkedFor } from '../../src/server/queue/run-queue.ts';
import { newRun } from '../server/queue/queue-contract.ts';
import { FakeRunQueue } from '../support/fake-run-queue.ts';

const MINUTE_MS = 60_000;
const SCAN_MS = 10 * MINUTE_MS;
const START_MS = Date.parse('2026-01-02T03:04:05.000Z');

/** The registry's side: which requests wait, and whether it answers. */
class FakeApprovals {
  readonly waitingIds = new Set<string>();
  readonly asked: (readonly string[])[] = [];
  readonly withdrawn: unknown[] = [];
  isUp = true;
  readonly port = this;
  failure: Error | null = null;
  #listener: ((news: DecisionEvent) => void) | null = null;

  get isListenedTo(): boolean {
    return this.#listener !== null;
  }

  listen(listener: (news: DecisionEvent) => void): () => void {
    this.#listener = listener;
    return () => {
      this.#listener = null;
    };
  }

  async waiting(ids: readonly string[]): Promise<ReadonlySet<string>> {
    this.asked.push(ids);
    if (this.failure !== null) throw this.failure;
    return new Set(ids.filter((id) => this.waitingIds.has(id)));
  }

  async withdrawAll(namespace: string, run: string, reason: string): Promise<void> {
    if (this.failure !== null) throw this.failure;
    this.withdrawn.push([namespace, run, reason]);
  }

  tell(news: DecisionEvent): void {
    this.#listener?.(news);
  }

  decide(run: string, id: string): void {
    this.waitingIds.delete(id);
    this.tell({ namespace: 'default', run, id } as DecisionEvent);
  }
}

beforeEach(() => void vi.useFakeTimers({ now: START_MS }));
const opened: ParkedRuns[] = [];
afterEach(async () => {
  for (const runs of opened.splice(0)) await runs.close();
  vi.useRealTimers();
});

/** A turn of the event loop between two pages is real: fake timers let it happen. */
const settled = async () => {
  for (let turns = 0; turns < 5; turns++) await vi.advanceTimersByTimeAsync(0);
};
const pass = async (ms: number) => {
  for (let left = ms; left > 0; left -= MINUTE_MS) {
    await vi.advanceTimersByTimeAsync(Math.min(left, MINUTE_MS));
    await settled();
  }
};

async function parkedRuns(untils: Readonly<Record<string, ParkedFor>>): Promise<FakeRunQueue> {
  const queue = new FakeRunQueue({ maxQueued: 100_000 });
  for (const id of Object.keys(untils)) await queue.submit(newRun(id));
  const claims = await queue.claim('n1', 'default', 100_000, MINUTE_MS, () => true);
  for (const claim of claims) await queue.park(claim, untils[claim.run.id] as ParkedFor);
  queue.calls.length = 0;
  return queue;
}

function watch(queue: FakeRunQueue, approvals: FakeApprovals | null = new FakeApprovals()) {
  const logged: string[] = [];
  const runs = new ParkedRuns({
    queue,
    pool: 'default',
    approvals: approvals as unknown as ApprovalConnection | null,
    log: (level, event, { message = '' } = {}) => logged.push(`${level} ${event} ${message}`.trim()),
  });
  opened.push(runs);
  return { runs, logged, woken: () => queue.called('wake').map(([id]) => id) };
}

const approval = (request: string): ParkedFor => ({ kind: 'approval', request });
const at = (atMs: number): ParkedFor => ({ kind: 'time', atMs });

describe('parked runs that are found at the start', () => {
  it('are woken where one of their requests was decided, and left where all wait', async () => {
    const queue = await parkedRuns({ r1: approval('a-1'), r2: approval('b-1 b-2'), r3: approval('c-1 c-2') });
    const approvals = new FakeApprovals();
    for (const id of ['a-1', 'b-1', 'b-2', 'c-2']) approvals.waitingIds.add(id);
    const { woken, logged } = watch(queue, approvals);
    await settled();
    expect([woken(), approvals.asked]).toEqual([['r3'], [['a-1', 'b-1', 'b-2', 'c-1', 'c-2']]]);
    expect(logged).toEqual(['info run_woken']);
    expect(await queue.find('r3')).toMatchObject({ status: 'queued' });
  });

  it('are woken at their time, not before, and those whose time is over at once', async () => {
    const queue = await parkedRuns({ r1: at(START_MS - 1), r2: at(START_MS + 1_000), r3: at(START_MS + 500) });
    const { woken } = watch(queue);
    await settled();
    expect(woken()).toEqual(['r1']);
    await pass(499);
    expect(woken()).toEqual(['r1']);
    await pass(1);
    expect(woken()).toEqual(['r1', 'r3']);
    await pass(500);
    expect(woken()).toEqual(['r1', 'r3', 'r2']);
  });

  it('are left where they wait for a stream client', async () => {
    const { woken } = watch(await parkedRuns({ r1: { kind: 'stream' } }));
    await pass(60 * MINUTE_MS);
    expect(woken()).toEqual([]);
  });

  it('are woken where no registry can decide: the run learns that', async () => {
    const { woken } = watch(await parkedRuns({ r1: approval('a-1') }), null);
    await settled();
    expect(woken()).toEqual(['r1']);
  });

  it('are read in pages of 500, and the registry is asked about at most 1,000 requests at once', async () => {
    const many = Object.fromEntries(Array.from({ length: 501 }, (_, n) => [`r${n}`, approval(`a-${n} b-${n} c-${n}`)]));
    const queue = await parkedRuns(many);
    const approvals = new FakeApprovals();
    const { woken } = watch(queue, approvals);
    await settled();
    expect(queue.called('parked').map(([, given]) => given)).toEqual([
      { cursor: null, limit: 500 },
      { cursor: '500', limit: 500 },
    ]);
    expect(approvals.asked.map(({ length }) => length)).toEqual([1_000, 500, 3]);
    expect(new Set(woken()).size).toBe(501);
  });
});

describe('a scan of all parked runs', () => {
  it('is made every ten minutes, and between them nothing is asked', async () => {
    const queue = await parkedRuns({ r1: approval('a-1') });
    const approvals = new FakeApprovals();
    approvals.waitingIds.add('a-1');
    watch(queue, approvals);
    await settled();
    await pass(6 * SCAN_MS);
    expect([queue.called('parked').length, approvals.asked.length, queue.called('wake')]).toEqual([7, 7, []]);
  });

  it('finds a decision of which no news came', async () => {
    const queue = await parkedRuns({ r1: approval('a-1') });
    const approvals = new FakeApprovals();
    approvals.waitingIds.add('a-1');
    const { woken } = watch(queue, approvals);
    await pass(MINUTE_MS);
    approvals.waitingIds.clear();
    await pass(SCAN_MS);
    expect(woken()).toEqual(['r1']);
  });

  it('is made once when the registry is back, however often it says so, and not when it is lost', async () => {
    const queue = await parkedRuns({});
    const approvals = new FakeApprovals();
    watch(queue, approvals);
    await settled();
    approvals.tell('lost');
    await settled();
    expect(queue.called('parked')).toHaveLength(1);
    for (let times = 0; times < 10; times++) approvals.tell('connected');
    await settled();
    expect(queue.called('parked')).toHaveLength(2);
  });

  it.each([
    ['the queue', true],
    ['the registry', false],
  ])('that fails because of %s is made again after 5 s', async (_, isQueue) => {
    const queue = await parkedRuns({ r1: approval('a-1') });
    const approvals = new FakeApprovals();
    const failure = new Error('timeout');
    if (isQueue) queue.fail('parked', failure);
    else approvals.failure = failure;
    const { woken, logged } = watch(queue, approvals);
    await settled();
    approvals.failure = null;
    await pass(4_999);
    expect([woken(), logged]).toEqual([[], ['warn not_woken timeout']]);
    await pass(1);
    expect(woken()).toEqual(['r1']);
  });

  it('that fails while the registry is away logs nothing: its loss was logged', async () => {
    const approvals = new FakeApprovals();
    approvals.isUp = false;
    approvals.failure = new Error('unavailable');
    const { logged } = watch(await parkedRuns({ r1: approval('a-1') }), approvals);
    await pass(MINUTE_MS);
    expect(logged).toEqual([]);
    expect(approvals.asked).toHaveLength(13); // at the start, and every 5 s
  });
});

describe('a decision', () => {
  it('wakes its run at once', async () => {
    const queue = await parkedRuns({ r1: approval('a-1'), r2: approval('b-1') });
    const approvals = new FakeApprovals();
    for (const id of ['a-1', 'b-1']) approvals.waitingIds.add(id);
    const { woken } = watch(queue, approvals);
    await settled();
    approvals.decide('r2', 'b-1');
    await settled();
    expect(woken()).toEqual(['r2']);
  });

  it('of a run that is not parked changes nothing, and is not logged', async () => {
    const approvals = new FakeApprovals();
    const { woken, logged } = watch(await parkedRuns({}), approvals);
    await settled();
    approvals.decide('r9', 'a-1');
    await settled();
    expect([woken(), logged]).toEqual([['r9'], []]);
  });

  it('that came while its run was being parked is asked for, once for all runs parked within 20 ms [node.park.race]', async () => {
    const queue = await parkedRuns({});
    const approvals = new FakeApprovals();
    approvals.waitingIds.add('b-1');
    const { runs, woken } = watch(queue, approvals);
    await settled();
    for (const [id, request] of [
      ['r1', 'a-1'],
      ['r2', 'b-1'],
    ] as const) {
      await queue.submit(newRun(id));
      const [claim] = (await queue.claim('n1', 'default', 1, MINUTE_MS, () => true)) as [Claim];
      await queue.park(claim, approval(request));
      runs.parked({ namespace: 'default', id, until: approval(request) }, [request]);
      await pass(10);
    }
    expect(approvals.asked).toEqual([['a-1', 'b-1']]);
    expect(woken()).toEqual(['r1']);
    expect(await queue.find('r2')).toMatchObject({ status: 'parked' });
  });

  it('whose run could not be woken is found by a scan 5 s later', async () => {
    const queue = await parkedRuns({ r1: approval('a-1') });
    const approvals = new FakeApprovals();
    approvals.waitingIds.add('a-1');
    const { woken, logged } = watch(queue, approvals);
    await settled();
    queue.fail('wake', new Error('disk full'));
    approvals.decide('r1', 'a-1');
    await pass(5_000);
    expect([woken(), logged]).toEqual([
      ['r1', 'r1'],
      ['warn not_woken disk full', 'info run_woken'],
    ]);
  });
});

describe('a run that is parked until a time', () => {
  const parkedUntil = async (inMs: number) => {
    const queue = await parkedRuns({});
    const watched = watch(queue, null);
    await settled();
    await queue.submit(newRun('r1'));
    const [claim] = (await queue.claim('n1', 'default', 1, MINUTE_MS, () => true)) as [Claim];
    const until = at(Date.now() + inMs);
    await queue.park(claim, until);
    watched.runs.parked({ namespace: 'default', id: 'r1', until }, []);
    return { queue, ...watched };
  };

  it.each([
    ['in seconds', 7_000],
    ['after the next scan', 15 * MINUTE_MS],
    ['in hours, which no timer is set for now', 180 * MINUTE_MS],
  ])('that comes %s is woken then', async (_, inMs) => {
    const { woken } = await parkedUntil(inMs);
    await pass(inMs - 1);
    expect(woken()).toEqual([]);
    // A fake timer that is set while another one fires is a millisecond late.
    await pass(20);
    expect(woken()).toEqual(['r1']);
  });

  it('is woken within 30 s where the clock is set forward', async () => {
    const { woken } = await parkedUntil(8 * MINUTE_MS);
    vi.setSystemTime(Date.now() + 60 * MINUTE_MS);
    await pass(30_000);
    expect(woken()).toEqual(['r1']);
  });

  it('is tried again after 5 s where it cannot be woken', async () => {
    const { queue, woken } = await parkedUntil(1_000);
    queue.fail('wake', new Error('disk full'));
    await pass(1_000);
    expect(await queue.find('r1')).toMatchObject({ status: 'parked' });
    await pass(5_001);
    expect(woken()).toEqual(['r1', 'r1']);
    expect(await queue.find('r1')).toMatchObject({ status: 'queued' });
  });

  it('and for approvals is woken by whichever comes first', async () => {
    const queue = await parkedRuns({});
    const approvals = new FakeApprovals();
    approvals.waitingIds.add('a-1');
    const { runs, woken } = watch(queue, approvals);
    await settled();
    runs.parked({ namespace: 'default', id: 'r1', until: at(Date.now() + MINUTE_MS) }, ['a-1']);
    await pass(1_000);
    expect(woken()).toEqual([]);
    approvals.decide('r1', 'a-1');
    await settled();
    expect(woken()).toEqual(['r1']);
  });
});

describe('a run that has ended', () => {
  it('withdraws its requests', async () => {
    const approvals = new FakeApprovals();
    await watch(await parkedRuns({}), approvals).runs.left('default', 'r1');
    expect(approvals.withdrawn).toEqual([['default', 'r1', 'the run was cancelled']]);
  });

  it('is not affected where the registry does not answer', async () => {
    const approvals = new FakeApprovals();
    const { runs, logged } = watch(await parkedRuns({}), approvals);
    await settled();
    approvals.failure = new Error('unavailable');
    await runs.left('default', 'r1');
    expect(logged).toEqual(['warn not_withdrawn unavailable']);
  });
});

it('closed, it wakes nothing and leaves no timer or listener behind', async () => {
  const queue = await parkedRuns({ r1: at(START_MS + 1_000) });
  const approvals = new FakeApprovals();
  const { runs, woken } = watch(queue, approvals);
  await settled();
  runs.parked({ namespace: 'default', id: 'r2', until: at(START_MS + 500) }, ['a-1']);
  await runs.close();
  expect([vi.getTimerCount(), approvals.isListenedTo]).toEqual([0, false]);
  await pass(60 * MINUTE_MS);
  expect([woken(), approvals.asked]).toEqual([[], []]);
});
