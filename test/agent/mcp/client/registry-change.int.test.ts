import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { McpServerRecord } from '../../../../src/server/records/server.ts';
import { call, changeOf, eventually, isAlive, openPool, stdioRecord, tempDir, textOf } from './pool-samples.ts';

const patient = { budgets: { tool_timeout_ms: 60_000 } };
const withRevision = (record: McpServerRecord, mod_revision: number): McpServerRecord => ({ ...record, mod_revision });

describe('a server removed from the registry', () => {
  it('is told that its calls are cancelled, and ends', async () => {
    const trail = join(tempDir(), 'trail');
    const { pool } = openPool();
    const record = stdioRecord('mid', 'mid-call.mjs', { env: { TRAIL: trail }, ...patient });
    const other = stdioRecord('tiny', 'tiny.mjs');
    const pid = Number(await textOf(call(pool, record, 'pid')));
    const otherPid = await textOf(call(pool, other, 'pid'));
    const hanging = call(pool, record, 'hang');
    await eventually(() => expect(readFileSync(trail, 'utf8')).toContain('call'));
    pool.applyChange(changeOf({ deleted: ['mid', 'unknown'] }));
    const outcome = await hanging;
    expect(outcome).toMatchObject({ dispatched: true, error: { code: 'mcp_cancelled' } });
    expect(outcome.error?.message).toContain('removed from the registry');
    await eventually(() => expect(isAlive(pid)).toBe(false));
    expect(readFileSync(trail, 'utf8')).toContain('cancelled');
    expect(pool.health().map(({ serverId }) => serverId)).toEqual(['tiny']);
    expect(await textOf(call(pool, other, 'pid'))).toBe(otherPid);
  });

  it('while it is being connected is ended at once', async () => {
    const { pool } = openPool();
    const record = stdioRecord('mute', 'mute.mjs', { budgets: { connect_timeout_ms: 600_000 } });
    const waiting = call(pool, record, 'anything');
    await eventually(() => expect(pool.stats().subprocesses).toBe(1));
    pool.applyChange(changeOf({ deleted: ['mute'] }));
    expect(await waiting).toMatchObject({ dispatched: false, error: { code: 'mcp_cancelled' } });
    await eventually(() => expect(pool.stats().subprocesses).toBe(0));
  });

  it('does not come back through a caller who still has its record, until it is registered again', async () => {
    const { pool } = openPool();
    const record = withRevision(stdioRecord('tiny', 'tiny.mjs'), 5);
    await textOf(call(pool, record, 'pid'));
    pool.applyChange(changeOf({ deleted: ['tiny'] }));
    expect(await call(pool, record, 'pid')).toMatchObject({ dispatched: false, error: { code: 'mcp_unavailable' } });
    await expect(pool.listTools(record)).rejects.toThrow('removed from the registry');
    const again = withRevision(record, 6);
    pool.applyChange(changeOf({ upserted: [again] }));
    expect((await call(pool, again, 'pid')).ok).toBe(true);
  });
});

describe('a changed record', () => {
  it('with the same transport keeps its connection and is listed anew', async () => {
    const trail = join(tempDir(), 'trail');
    const { pool } = openPool();
    const stdio = { args: ['slow', '0'], env: { TRAIL: trail } };
    const record = stdioRecord('lists', 'lists.mjs', stdio);
    const other = stdioRecord('other', 'lists.mjs', stdio);
    await pool.listTools(record);
    await pool.listTools(other);
    const { connectedAtMs } = pool.health()[0] ?? {};
    const changed = stdioRecord('lists', 'lists.mjs', { ...stdio, budgets: { max_concurrency: 1 } });
    pool.applyChange(changeOf({ upserted: [changed] }));
    await pool.listTools(changed);
    await pool.listTools(other);
    expect(readFileSync(trail, 'utf8').trim().split('\n')).toHaveLength(3);
    expect(pool.health()[0]).toMatchObject({ connectedAtMs, reconnects: 0 });
  });

  it('with another transport is connected anew; calls in flight finish on the old one', async () => {
    const { pool } = openPool();
    const record = stdioRecord('counting', 'counting.mjs', patient);
    await pool.listTools(record);
    const running = call(pool, record, 'work', { label: 'old', ms: 500 });
    await eventually(() => expect(pool.stats().callsInFlight).toBe(1));
    const changed = stdioRecord('counting', 'counting.mjs', { env: { NEW: '1' }, ...patient });
    pool.applyChange(changeOf({ upserted: [changed] }));
    const seen = JSON.parse(await textOf(call(pool, changed, 'seen')));
    expect(seen.calls).toBe(0);
    expect(await textOf(running)).toBe('old');
    await eventually(() => expect(pool.stats().subprocesses).toBe(1));
  });

  it('is used when a caller brings it, and not undone by a caller with an older one', async () => {
    const { pool } = openPool();
    const old = withRevision(stdioRecord('tiny', 'tiny.mjs', { env: { VERSION: 'old' } }), 1);
    const fresh = withRevision(stdioRecord('tiny', 'tiny.mjs', { env: { VERSION: 'new' } }), 2);
    const version = async (record: McpServerRecord) =>
      JSON.parse(await textOf(call(pool, record, 'environment'))).VERSION;
    expect(await version(old)).toBe('old');
    expect(await version(fresh)).toBe('new');
    expect(await version(old)).toBe('new');
  });
});
