import { expect, it } from 'vitest';
import type { Wait, Waiting } from '../../../../src/base/listeners.ts';
import { call, eventually, openPool, stdioRecord } from './pool-samples.ts';

/** Every wait that began, and those that are not over. */
function noted(): { waiting: Waiting; begun: Wait[]; open: Set<Wait> } {
  const begun: Wait[] = [];
  const open = new Set<Wait>();
  const waiting: Waiting = (wait) => {
    begun.push(wait);
    open.add(wait);
    return () => open.delete(wait);
  };
  return { waiting, begun, open };
}

it('tells what a call waits for: the start, the list, the answer', async () => {
  const { waiting, begun, open } = noted();
  const { pool } = openPool({ waiting });
  const record = stdioRecord('tiny', 'tiny.mjs', { budgets: { connect_timeout_ms: 9_000, tool_timeout_ms: 8_000 } });
  await call(pool, record, 'pid');
  await call(pool, record, 'pid');
  const command = JSON.stringify(record.stdio?.command);
  const answer = { what: 'tool "pid" of server "tiny"', atMostMs: 8_000 };
  expect(begun).toEqual([
    { what: `server "tiny" to start: ${command} has not completed the MCP handshake`, atMostMs: 9_000 },
    { what: 'server "tiny" to list its tools', atMostMs: 15_000 },
    answer,
    answer,
  ]);
  expect(open.size).toBe(0);
});

it('tells of a wait for a place, at the server and at any', async () => {
  const { waiting, begun, open } = noted();
  const { pool } = openPool({ waiting, limits: { maxCallsInFlight: 1, queueTimeoutMs: 60_000 } });
  const narrow = stdioRecord('narrow', 'mid-call.mjs', { budgets: { max_concurrency: 1 } });
  const hanging = call(pool, narrow, 'hang');
  await eventually(() => expect(begun.at(-1)?.what).toBe('tool "hang" of server "narrow"'));
  const second = call(pool, narrow, 'pid');
  const third = call(pool, stdioRecord('other', 'tiny.mjs'), 'pid');
  const places = [
    { what: 'a slot at server "narrow": limited to 1 concurrent calls', atMostMs: 60_000 },
    { what: 'a call slot: 1 calls to servers are in flight', atMostMs: 60_000 },
  ];
  for (const place of places) await eventually(() => expect([...open]).toContainEqual(place));
  await pool.close();
  await Promise.all([hanging, second, third]);
  expect(open.size).toBe(0);
});

it('tells of no wait any more when a server could not be started', async () => {
  const { waiting, begun, open } = noted();
  const { pool } = openPool({ waiting });
  const mute = stdioRecord('mute', 'mute.mjs', { budgets: { connect_timeout_ms: 100 } });
  expect((await call(pool, mute, 'x')).ok).toBe(false);
  expect(begun.length).toBeGreaterThan(0);
  expect(open.size).toBe(0);
});
