import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { PoolOfRun } from '../../../../src/agent/mcp/client/pool.ts';
import type { ConnectionScope, McpServerRecord } from '../../../../src/server/records/server.ts';
import { ended } from './ended-call.ts';
import { changeOf, eventually, isAlive, openPool, stdioRecord, tempDir } from './pool-samples.ts';

interface Seen {
  readonly pid: number;
  readonly told: readonly string[];
  readonly kept: readonly string[];
  readonly home: string;
}

const scoped = (connection_scope: ConnectionScope): McpServerRecord => ({
  ...stdioRecord('memory', 'remembering.mjs'),
  connection_scope,
});

async function tell(pool: Pick<PoolOfRun, 'startCall'>, record: McpServerRecord, text: string): Promise<Seen> {
  const { json, error } = await ended(pool, record, { tool: 'remember', args: { text }, owner: 'test' });
  if (error !== null) throw new Error(error.message);
  const { content } = JSON.parse(json) as { content: { text: string }[] };
  return JSON.parse(content[0]?.text ?? '') as Seen;
}

function openRuns() {
  const { pool, stateDir } = openPool();
  const parent = tempDir();
  const run = (task: string, id: string) => pool.forRun({ task, stateDir: join(parent, task), run: id });
  return { pool, stateDir, parent, a1: run('a', 'a1'), a2: run('a', 'a2'), b1: run('b', 'b1') };
}

describe('connection_scope', () => {
  it('run: a process and a HOME for one run, gone with it [pool.connection-scope]', async () => {
    const { pool, a1, a2 } = openRuns();
    const record = scoped('run');
    const first = await tell(a1, record, 'one');
    expect(await tell(a1, record, 'two')).toMatchObject({ pid: first.pid, told: ['one', 'two'], kept: ['one', 'two'] });
    const second = await tell(a2, record, 'other');
    expect(second).toMatchObject({ told: ['other'], kept: ['other'] });
    expect(second.pid).not.toBe(first.pid);
    expect(pool.stats()).toMatchObject({ servers: 2, connected: 2, subprocesses: 2 });
    expect(pool.health()).toHaveLength(1);
    a1.close();
    await eventually(() => expect(isAlive(first.pid)).toBe(false));
    await eventually(() => expect(existsSync(first.home)).toBe(false));
    expect(await tell(a2, record, 'more')).toMatchObject({ pid: second.pid, told: ['other', 'more'] });
    await expect(tell(a1, record, 'late')).rejects.toThrow('run a1 has ended');
    await expect(a1.listTools(record)).rejects.toThrow('run a1 has ended');
    await eventually(() => expect(pool.stats()).toMatchObject({ servers: 1, subprocesses: 1 }));
  });

  it('task: what a task tells a server, no other task sees [pool.connection-scope]', async () => {
    const { pool, parent, a1, a2, b1 } = openRuns();
    const record = scoped('task');
    const first = await tell(a1, record, 'one');
    a1.close();
    expect(await tell(a2, record, 'two')).toMatchObject({ pid: first.pid, told: ['one', 'two'] });
    const other = await tell(b1, record, 'three');
    expect(other).toMatchObject({ told: ['three'], kept: ['three'] });
    expect([first.home, other.home].map((home) => home.startsWith(parent))).toEqual([true, true]);
    await pool.endTask('a');
    expect(isAlive(first.pid)).toBe(false);
    expect(isAlive(other.pid)).toBe(true);
    expect(await tell(a2, record, 'again')).toMatchObject({ told: ['again'], kept: ['one', 'two', 'again'] });
  });

  it('node: one process for all, which outlives the runs and tasks that use it [pool.connection-scope]', async () => {
    const { pool, stateDir, a1, b1 } = openRuns();
    const record = scoped('node');
    const first = await tell(a1, record, 'one');
    a1.close();
    await pool.endTask('a');
    expect(await tell(b1, record, 'two')).toMatchObject({ pid: first.pid, told: ['one', 'two'] });
    expect(first.home.startsWith(stateDir)).toBe(true);
    expect(pool.stats().subprocesses).toBe(1);
  });

  it('that is changed is in force with the next call; a removed server ends for all', async () => {
    const { pool, a1, b1 } = openRuns();
    const shared = await tell(a1, scoped('node'), 'one');
    const narrowed = { ...scoped('run'), mod_revision: 9 };
    pool.applyChange(changeOf({ upserted: [narrowed] }));
    const own = [await tell(a1, narrowed, 'two'), await tell(b1, narrowed, 'three')];
    expect(own.map(({ told }) => told)).toEqual([['two'], ['three']]);
    pool.applyChange(changeOf({ deleted: ['memory'] }));
    await eventually(() => expect([shared, ...own].some(({ pid }) => isAlive(pid))).toBe(false));
    expect(pool.health()).toEqual([]);
  });
});
