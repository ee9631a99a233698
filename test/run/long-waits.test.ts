import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ApprovalWait } from '../../src/agent/approvals/client.ts';
import { LongWaits, type WaitingApproval } from '../../src/run/long-waits.ts';
import type { ParkedFor } from '../../src/server/records/run.ts';

const PARK_AFTER_MS = 10_000;
/** The guest is watched for this long before it is parked. */
const IDLE_MS = 100;
const RETRY_MS = 250;
const MINUTE_MS = 60_000;
const START_MS = Date.parse('2026-01-02T03:04:05.000Z');

beforeEach(() => void vi.useFakeTimers({ now: START_MS }));
afterEach(() => void vi.useRealTimers());
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

function open() {
  const shown: (readonly WaitingApproval[])[] = [];
  const parks: { readonly until: ParkedFor; readonly requests: readonly string[]; readonly afterMs: number }[] = [];
  const guest = { underway: 0, computedMs: 0 as number | null, computesPerMs: 0, ended: 0 };
  const since = performance.now();
  const waits = new LongWaits(
    {
      parkAfterMs: PARK_AFTER_MS,
      onWaiting: (approvals) => shown.push(approvals),
      onPark: (until, requests) => parks.push({ until, requests, afterMs: performance.now() - since }),
    },
    {
      underway: () => guest.underway,
      computedMs: async () => guest.computedMs && guest.computedMs + (performance.now() - since) * guest.computesPerMs,
      park: () => {
        guest.ended += 1;
      },
    },
  );
  const abandoned: string[] = [];
  const approval = (id: string, args: Record<string, string> = {}) => {
    const request = {
      ...{ server: 'bank', tool: 'pay', ordinal: '5.1.1', cause: { code: 'always', text: 'its record asks for it' } },
      arguments: args,
    };
    return waits.approval({ id, request, abandon: () => abandoned.push(id) } as unknown as ApprovalWait);
  };
  return { waits, guest, shown, parks, approval, abandoned };
}

describe('a run that waits for an approval', () => {
  it('is parked after the configured time: its waits are abandoned, and its guest is ended once', async () => {
    const { approval, parks, guest, abandoned } = open();
    approval('a-1');
    await pass(PARK_AFTER_MS + IDLE_MS - 1);
    expect([parks, guest.ended]).toEqual([[], 0]);
    await pass(1);
    expect(parks).toEqual([
      { until: { kind: 'approval', request: 'a-1' }, requests: ['a-1'], afterMs: PARK_AFTER_MS + IDLE_MS },
    ]);
    await pass(60 * MINUTE_MS);
    expect([parks.length, guest.ended, abandoned]).toEqual([1, 1, ['a-1']]);
  });

  it('is not parked where the decision comes before, and says that it does not wait any more', async () => {
    const { approval, parks, shown } = open();
    const over = approval('a-1');
    await pass(PARK_AFTER_MS - 1);
    over();
    over();
    await pass(60 * MINUTE_MS);
    expect([parks, shown.map(({ length }) => length)]).toEqual([[], [1, 0]]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is not parked where the decision comes while the guest is watched [node.park.race]', async () => {
    const { approval, parks } = open();
    const over = approval('a-1');
    await pass(PARK_AFTER_MS + IDLE_MS - 1);
    over();
    await pass(60 * MINUTE_MS);
    expect(parks).toEqual([]);
  });

  it('says for what: server, tool, cause and masked arguments', async () => {
    const { approval, shown } = open();
    approval('a-1', { to: 'ann', token: 'ghp_0123456789abcdefghijABCDEFGHIJ0123456789' });
    expect(shown).toMatchObject([
      [{ request: 'a-1', server: 'bank', tool: 'pay', ordinal: '5.1.1', cause: 'its record asks for it' }],
    ]);
    expect(JSON.stringify(shown)).not.toContain('ghp_0123');
    expect(JSON.stringify(shown)).toContain('ann');
  });

  it('and for others is parked for all of them', async () => {
    const { approval, parks, abandoned } = open();
    approval('a-1');
    await pass(3_000);
    approval('b-1');
    await pass(PARK_AFTER_MS + IDLE_MS);
    expect(parks).toMatchObject([{ until: { kind: 'approval', request: 'a-1 b-1' }, requests: ['a-1', 'b-1'] }]);
    expect(abandoned).toEqual(['a-1', 'b-1']);
  });

  it('is not parked while it waits for more than 64 of them', async () => {
    const { approval, parks } = open();
    const overs = Array.from({ length: 65 }, (_, n) => approval(`a-${n}`));
    await pass(MINUTE_MS);
    expect(parks).toEqual([]);
    overs[0]?.();
    await pass(RETRY_MS + IDLE_MS);
    expect(parks[0]?.requests).toHaveLength(64);
  });

  it('is not parked while something else of it is in flight, and afterwards within a retry', async () => {
    const { approval, parks, guest } = open();
    guest.underway = 1;
    approval('a-1');
    await pass(MINUTE_MS);
    expect(parks).toEqual([]);
    guest.underway = 0;
    await pass(RETRY_MS + IDLE_MS);
    expect(parks).toHaveLength(1);
  });

  it.each([
    ['computes', 1, 0],
    ['computes a quarter of the time', 0.25, 0],
    ['computes hardly', 0.2, 1],
    ['computes nothing', 0, 1],
  ])('whose guest %s is parked only where it is idle', async (_, computesPerMs, parked) => {
    const { approval, parks, guest } = open();
    guest.computedMs = 1;
    guest.computesPerMs = computesPerMs;
    approval('a-1');
    await pass(MINUTE_MS);
    expect(parks).toHaveLength(parked);
  });

  it('is parked where nothing is known of what its guest computes', async () => {
    const { approval, parks, guest } = open();
    guest.computedMs = null;
    approval('a-1');
    await pass(PARK_AFTER_MS + IDLE_MS);
    expect(parks).toHaveLength(1);
  });
});

describe('a run whose guest sleeps', () => {
  it('is parked at once, until its time', async () => {
    const { waits, parks } = open();
    waits.sleep(1, 60 * MINUTE_MS);
    expect(waits.sleeps).toEqual([[1, START_MS + 60 * MINUTE_MS]]);
    await pass(IDLE_MS);
    expect(parks).toEqual([
      { until: { kind: 'time', atMs: START_MS + 60 * MINUTE_MS }, requests: [], afterMs: IDLE_MS },
    ]);
  });

  it('with several timers is parked until the first of them', async () => {
    const { waits, parks } = open();
    waits.sleep(1, 60 * MINUTE_MS);
    waits.sleep(2, 30 * MINUTE_MS);
    await pass(IDLE_MS);
    expect(parks).toMatchObject([{ until: { kind: 'time', atMs: START_MS + 30 * MINUTE_MS } }]);
  });

  it('is not parked where less than half of the parking time is left of any timer', async () => {
    const { waits, parks } = open();
    waits.sleep(1, 60 * MINUTE_MS);
    waits.sleep(2, PARK_AFTER_MS / 2 - 1);
    await pass(PARK_AFTER_MS);
    expect(parks).toEqual([]);
    waits.woke(2);
    await pass(RETRY_MS + IDLE_MS);
    expect(parks).toHaveLength(1);
  });

  it('that woke up is not parked any more, and leaves no timer', async () => {
    const { waits, parks } = open();
    waits.sleep(1, 60 * MINUTE_MS);
    waits.woke(1);
    await pass(60 * MINUTE_MS);
    expect([parks, waits.sleeps, vi.getTimerCount()]).toEqual([[], [], 0]);
  });

  it('and that waits for approvals is parked for a time, at most ten minutes, and names the requests', async () => {
    const { waits, approval, parks } = open();
    approval('a-1');
    waits.sleep(1, 60 * MINUTE_MS);
    await pass(IDLE_MS);
    const atMs = START_MS + IDLE_MS + 10 * MINUTE_MS;
    expect(parks).toMatchObject([{ until: { kind: 'time', atMs }, requests: ['a-1'] }]);
  });

  it('and that waits for approvals is woken by its sleep where that is sooner', async () => {
    const { waits, approval, parks } = open();
    approval('a-1');
    waits.sleep(1, MINUTE_MS);
    await pass(IDLE_MS);
    expect(parks).toMatchObject([{ until: { kind: 'time', atMs: START_MS + MINUTE_MS }, requests: ['a-1'] }]);
  });
});

describe('a run that waits for a client of its user streams', () => {
  it('is parked where it still does when it was watched', async () => {
    const { waits, parks } = open();
    waits.rests(() => true);
    await pass(IDLE_MS);
    expect(parks).toEqual([{ until: { kind: 'stream' }, requests: [], afterMs: IDLE_MS }]);
  });

  it('is not parked where a client came meanwhile', async () => {
    const { waits, parks } = open();
    let isStill = true;
    waits.rests(() => isStill);
    await pass(IDLE_MS - 1);
    isStill = false;
    await pass(MINUTE_MS);
    expect([parks, vi.getTimerCount()]).toEqual([[], 0]);
    isStill = true;
    waits.rests(() => isStill);
    await pass(IDLE_MS);
    expect(parks).toHaveLength(1);
  });

  it('is not parked where a timer of it fired meanwhile', async () => {
    const { waits, parks } = open();
    waits.rests(() => true);
    waits.woke(1);
    await pass(MINUTE_MS);
    expect(parks).toEqual([]);
  });
});

it('closed, it parks nothing and reports nothing more', async () => {
  const { waits, approval, parks, shown, abandoned } = open();
  const over = approval('a-1');
  await pass(PARK_AFTER_MS + 1);
  waits.close();
  over();
  approval('b-1')();
  waits.sleep(1, 60 * MINUTE_MS);
  waits.rests(() => true);
  await pass(60 * MINUTE_MS);
  expect([parks, shown.length, abandoned, waits.sleeps]).toEqual([[], 1, [], []]);
  expect(vi.getTimerCount()).toBe(0);
});
