import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { McpPolicyError } from '../../../../src/agent/mcp/client/errors.ts';
import { inEnoughTime } from '../../../support/enough-time.ts';
import { call, eventually, openPool, stdioRecord, tempDir, textOf } from './pool-samples.ts';

const counting = (id: string, max_concurrency: number, env: Record<string, string> = {}) =>
  stdioRecord(id, 'counting.mjs', { env, budgets: { max_concurrency, tool_timeout_ms: 60_000 } });

describe('200 calls at once against a server with max_concurrency 4', () => {
  it('all finish, never more than 4 in flight, in fair order [pool.concurrency]', async () => {
    const { pool } = openPool();
    const record = counting('counting', 4);
    await pool.listTools(record);
    const owners = ['a', 'b', 'c', 'd'];
    const calls = owners.flatMap((owner) => Array.from({ length: 50 }, (_, i) => ({ owner, label: `${owner}${i}` })));
    const outcomes = await Promise.all(
      calls.map(({ owner, label }) => call(pool, record, 'work', { label, ms: 5 }, { owner })),
    );
    expect(outcomes.filter(({ ok }) => !ok)).toEqual([]);
    expect(pool.stats()).toMatchObject({ callsInFlight: 0, callsQueued: 0 });

    const seen = JSON.parse(await textOf(call(pool, record, 'seen')));
    expect(seen).toMatchObject({ calls: 200, running: 0, most: 4 });
    const order = seen.order as string[];
    for (const owner of owners) {
      const own = order.filter((label) => label.startsWith(owner));
      expect(own).toEqual(Array.from({ length: 50 }, (_, i) => `${owner}${i}`));
    }
    // The first 4 belong to the first owner, who found the places free; from then on the owners take turns.
    const turns = order.slice(4, 4 + 4 * 46).map((label) => label[0]);
    for (let i = 0; i < turns.length; i += 4) expect(new Set(turns.slice(i, i + 4)).size).toBe(4);
  });

  it('of one owner finish in the order they came [pool.concurrency]', async () => {
    const { pool } = openPool();
    const record = counting('counting', 4);
    await pool.listTools(record);
    const labels = Array.from({ length: 200 }, (_, i) => `n${i}`);
    await Promise.all(labels.map((label) => textOf(call(pool, record, 'work', { label }))));
    const seen = JSON.parse(await textOf(call(pool, record, 'seen')));
    expect(seen).toMatchObject({ calls: 200, most: 4, order: labels });
  });
});

describe('beyond a budget', () => {
  it('a call that finds no place in line fails at once', async () => {
    const { pool } = openPool({ limits: { maxQueuedCalls: 2 } });
    const record = counting('counting', 1);
    await pool.listTools(record);
    const calls = Array.from({ length: 5 }, (_, i) => call(pool, record, 'work', { label: `n${i}`, ms: 100 }));
    const codes = (await Promise.all(calls)).map(({ error, dispatched }) => [error?.code, dispatched]);
    expect(codes).toEqual([
      [undefined, true],
      [undefined, true],
      [undefined, true],
      ['mcp_budget_exceeded', false],
      ['mcp_budget_exceeded', false],
    ]);
  });

  it('waiting in line has a deadline of its own, and can be cancelled', async () => {
    const { pool } = openPool({ limits: { queueTimeoutMs: 500 } });
    const record = counting('counting', 1);
    await pool.listTools(record);
    const blocker = new AbortController();
    const first = call(pool, record, 'work', { label: 'first', ms: 60_000 }, { signal: blocker.signal });
    const cancel = new AbortController();
    const second = call(pool, record, 'work', { label: 'second' });
    const third = call(pool, record, 'work', { label: 'third' }, { signal: cancel.signal });
    cancel.abort();
    expect(await third).toMatchObject({ dispatched: false, error: { code: 'mcp_cancelled' } });
    expect(await second).toMatchObject({ dispatched: false, error: { code: 'mcp_budget_exceeded' } });
    blocker.abort();
    expect((await first).error?.code).toBe('mcp_cancelled');
    const seen = JSON.parse(await textOf(call(pool, record, 'seen')));
    expect(seen.order).toEqual(['first']);
  });

  it('waiting in line takes nothing from the time of the call itself', async () => {
    const { pool } = openPool();
    const record = counting('counting', 1);
    await pool.listTools(record);
    await inEnoughTime(600, async (timeoutMs) => {
      const calls = Array.from({ length: 4 }, (_, i) =>
        call(pool, record, 'work', { label: `n${i}`, ms: timeoutMs / 3 }, { timeoutMs }),
      );
      expect((await Promise.all(calls)).map(({ error }) => error)).toEqual([null, null, null, null]);
    });
  });

  it('of all servers together, calls wait for each other', async () => {
    const trail = join(tempDir(), 'trail');
    const { pool } = openPool({ limits: { maxCallsInFlight: 1 } });
    const records = ['one', 'two'].map((id) => counting(id, 8, { TRAIL: trail }));
    await Promise.all(records.map((record) => pool.listTools(record)));
    let most = 0;
    const watch = () => {
      most = Math.max(most, pool.stats().callsInFlight);
    };
    const calls = Array.from({ length: 20 }, (_, i) =>
      call(pool, records[i % 2] as (typeof records)[0], 'work', { label: `n${i}`, ms: 5 }, { beforeDispatch: watch }),
    );
    expect((await Promise.all(calls)).every(({ ok }) => ok)).toBe(true);
    expect(most).toBe(1);
    expect(readFileSync(trail, 'utf8').trim().split('\n')).toHaveLength(20);
  });

  it('of processes, an idle server makes way, and a busy one does not', async () => {
    const { pool } = openPool({ limits: { maxSubprocesses: 2 } });
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((id) => counting(id, 8)) as [
      CountingRecord,
      CountingRecord,
      CountingRecord,
      CountingRecord,
    ];
    await textOf(call(pool, a, 'work', { label: 'a' }));
    await textOf(call(pool, b, 'work', { label: 'b' }));
    await textOf(call(pool, c, 'work', { label: 'c' }));
    expect(pool.stats().subprocesses).toBe(2);
    expect(pool.health().map(({ serverId, state }) => [serverId, state])).toEqual([
      ['a', 'idle'],
      ['b', 'connected'],
      ['c', 'connected'],
    ]);
    const stop = new AbortController();
    const busy = [b, c].map((record) =>
      call(pool, record, 'work', { label: 'long', ms: 60_000 }, { signal: stop.signal }),
    );
    await eventually(() => expect(pool.stats().callsInFlight).toBe(2));
    const refused = await call(pool, d, 'work', { label: 'd' });
    expect(refused).toMatchObject({ dispatched: false, error: { code: 'mcp_budget_exceeded', retryable: true } });
    stop.abort();
    await Promise.all(busy);
    expect(await textOf(call(pool, d, 'work', { label: 'd' }))).toBe('d');
    expect(pool.stats().subprocesses).toBe(2);
  });
});

type CountingRecord = ReturnType<typeof counting>;

describe('the policy', () => {
  it('is asked after the wait in line, and its refusal never reaches the server', async () => {
    const { pool } = openPool();
    const record = counting('counting', 1);
    await pool.listTools(record);
    let allowed = true;
    const order: string[] = [];
    const make = (label: string) => {
      const beforeDispatch = () => {
        order.push(label);
        if (!allowed) throw new McpPolicyError('counting', 'the tool was revoked');
      };
      return call(pool, record, 'work', { label, ms: 50 }, { beforeDispatch });
    };
    const first = make('first');
    const second = make('second');
    await eventually(() => expect(order).toEqual(['first']));
    allowed = false;
    expect((await first).ok).toBe(true);
    expect(await second).toMatchObject({
      dispatched: false,
      error: { code: 'mcp_policy_denied', message: 'the tool was revoked', retryable: false },
    });
    const seen = JSON.parse(await textOf(call(pool, record, 'seen')));
    expect(seen.order).toEqual(['first']);
  });
});
