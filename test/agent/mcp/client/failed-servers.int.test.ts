import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { hashDefinition, type ToolDefinition } from '../../../../src/agent/policy/definition-hash.ts';
import { changeOf, fixture, openPool, stdioRecord, tempDir } from './pool-samples.ts';

it('an error of a server outlives its connection, until the server lists its tools again [mcp.last-error]', async () => {
  const { pool, stateDir } = openPool({ limits: { listTimeoutMs: 300 } });
  const record = {
    ...stdioRecord('fickle', 'lists.mjs', { args: ['slow', '3600000'] }),
    connection_scope: 'run',
  } as const;
  const run = pool.forRun({ task: 'a', stateDir, run: 'a1' });
  await expect(run.listTools(record)).rejects.toThrow('300 ms');
  expect(pool.health()).toMatchObject([
    { serverId: 'fickle', state: 'degraded', lastError: expect.stringContaining('300 ms') },
  ]);
  run.close();
  expect(pool.health()).toMatchObject([
    { serverId: 'fickle', state: 'down', toolCount: null, lastError: expect.stringContaining('300 ms') },
  ]);

  const healthy = {
    ...record,
    ...stdioRecord('fickle', 'lists.mjs', { args: ['slow', '0'] }),
    connection_scope: 'run',
  } as const;
  const next = pool.forRun({ task: 'a', stateDir, run: 'a2' });
  await next.listTools(healthy);
  expect(pool.health()).toMatchObject([{ serverId: 'fickle', state: 'connected', lastError: null }]);
  next.close();
  expect(pool.health()).toEqual([]);
});

it('an error does not return when the connection of a server that works again is idle [mcp.last-error]', async () => {
  let now = 0;
  const { pool } = openPool({ now: () => now, limits: { idleTimeoutMs: 50 } });
  const script = join(tempDir(), 'late.mjs');
  const record = stdioRecord('late', script, { args: ['slow', '0'] });
  await expect(pool.listTools(record)).rejects.toThrow();
  symlinkSync(fixture('lists.mjs'), script);
  now += 60_000;
  await pool.listTools(record);
  expect(pool.health()).toMatchObject([{ state: 'connected', lastError: null }]);
  await expect.poll(() => pool.health()[0]?.state).toBe('idle');
  expect(pool.health()).toMatchObject([{ serverId: 'late', lastError: null }]);
});

it('an error of a server that the registry removed is forgotten [mcp.last-error]', async () => {
  const { pool } = openPool();
  const record = stdioRecord('crash', 'lists.mjs', { args: ['killed'] });
  await expect(pool.listTools(record)).rejects.toThrow();
  expect(pool.health()).toMatchObject([{ serverId: 'crash', lastError: expect.any(String) }]);
  pool.applyChange(changeOf({ deleted: ['crash'] }));
  expect(pool.health()).toEqual([]);
});

it('a tool that changed after it was pinned is the last error of its server, until it is reviewed [mcp.last-error]', async () => {
  const { pool } = openPool();
  const record = stdioRecord('drifted', 'lists.mjs', { args: ['kept', '0'] });
  const pinned = (sha256: string) => ({ ...record, pins: { asked: sha256 } });
  const { tools } = await pool.listTools(pinned('0'.repeat(64)));
  const problem = '"asked" changed after being pinned: review with "spear servers pin drifted"';
  expect(pool.health()).toMatchObject([{ serverId: 'drifted', state: 'degraded', lastError: problem }]);
  await pool.listTools(pinned(hashDefinition(tools[0] as ToolDefinition)));
  expect(pool.health()).toMatchObject([{ serverId: 'drifted', state: 'connected', lastError: null }]);
});

it('a server that hangs in tools/list says so while it is waited for [mcp.wait-status]', async () => {
  const { pool } = openPool();
  const record = stdioRecord('mute', 'lists.mjs', { args: ['slow', '3600000'] });
  const cancel = new AbortController();
  const listing = pool.listTools(record, { signal: cancel.signal });
  await expect.poll(() => pool.step(record)?.what).toBe('tools/list');
  expect(pool.step(record)).toMatchObject({ atMostMs: 15_000 });
  cancel.abort();
  await expect(listing).rejects.toThrow();
});

it('the error of a process that could not start has the code of the system error [node.pressure]', async () => {
  const { pool } = openPool();
  const record = stdioRecord('absent', 'lists.mjs');
  const absent = { ...record, stdio: { ...record.stdio, command: '/nonexistent/server' } } as typeof record;
  await expect(pool.listTools(absent)).rejects.toMatchObject({ reason: 'spawn_failed', systemError: 'ENOENT' });
});
