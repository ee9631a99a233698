import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { call, eventually, openPool, stdioRecord, tempDir, textOf } from './pool-samples.ts';

const lines = (path: string) => readFileSync(path, 'utf8').trim().split('\n').length;

describe('tools/list', () => {
  it('is asked for all its pages', async () => {
    const { pool } = openPool();
    const { tools } = await pool.listTools(stdioRecord('paged', 'lists.mjs', { args: ['paged', '5'] }));
    expect(tools.map(({ name }) => name)).toEqual(['tool_0', 'asked', 'tool_1', 'tool_2', 'tool_3', 'tool_4']);
  });

  it.each([
    ['never ends', ['endless'], {}, 'maxListPages'],
    ['has too many tools', ['wide', '51'], { maxTools: 50 }, 'maxTools'],
    ['is too large', ['wide', '500'], { maxListBytes: 10_000 }, 'maxListBytes'],
    ['fails', ['fails'], {}, 'the list is broken'],
  ])('that %s is a failed listing', async (_, args, limits, message) => {
    const trail = join(tempDir(), 'trail');
    const { pool, log } = openPool({ limits });
    const record = stdioRecord('lists', 'lists.mjs', { args, env: { TRAIL: trail } });
    await expect(pool.listTools(record)).rejects.toThrow(message);
    const asked = lines(trail);
    await expect(pool.listTools(record)).rejects.toThrow(message);
    expect(await call(pool, record, 'asked')).toMatchObject({ ok: false, dispatched: false });
    expect(lines(trail)).toBe(asked);
    expect(log.filter(({ event }) => event === 'list_failed')).toHaveLength(1);
  });

  it.each([
    ['goes round in a circle', 'circle', ['first', 'a', 'b'], 'the page cursors form a cycle'],
    ['ends with an empty cursor', 'empty_cursor', ['asked'], 'an empty nextCursor'],
    ['is one page again and again', 'one_page', ['asked'], 'repeats the same page'],
    ['is not offered', 'no_capability', [], 'declares no tools'],
  ])('that %s is what was listed, with a warning [pool.list.odd]', async (_, mode, names, notice) => {
    const { pool, log } = openPool();
    const list = await pool.listTools(stdioRecord('lists', 'lists.mjs', { args: [mode] }));
    expect(list.tools.map(({ name }) => name)).toEqual(names);
    expect(list.dropped).toEqual([]);
    expect(list.notice).toContain(notice);
    expect(log.filter(({ event }) => event === 'list_odd').map(({ message }) => message)).toEqual([
      expect.stringContaining(notice),
    ]);
  });

  it('is asked once by many readers at one time, and kept afterwards', async () => {
    const { pool } = openPool();
    const record = stdioRecord('slow', 'lists.mjs', { args: ['slow', '300'] });
    const lists = await Promise.all(Array.from({ length: 20 }, () => pool.listTools(record)));
    expect(new Set(lists).size).toBe(1);
    expect(await pool.listTools(record)).toBe(lists[0]);
    expect(await textOf(call(pool, record, 'asked'))).toBe('1');
  });

  it.each([
    ['as long as it says', 20_000, 20_000],
    ['five seconds, where it says not at all', 0, 5_000],
    ['an hour, where it says for ever', Number.MAX_SAFE_INTEGER, 3_600_000],
    ['a minute, where it says nothing that counts', -1, 60_000],
  ])('is kept for %s [pool.eras.ttl]', async (_, ttlMs, keptMs) => {
    let now = 0;
    const { pool, log } = openPool({ now: () => now, limits: { idleTimeoutMs: 60_000 } });
    const record = stdioRecord('kept', 'lists.mjs', { args: ['kept', String(ttlMs)] });
    const listings = () => log.filter(({ event }) => event === 'tools_listed').length;
    await pool.listTools(record);
    now = keptMs - 1;
    await pool.listTools(record);
    expect(listings()).toBe(1);
    now = keptMs;
    await pool.listTools(record);
    expect(listings()).toBe(2);
  });

  it('goes on for the others when one reader gives up', async () => {
    const { pool } = openPool();
    const record = stdioRecord('slow', 'lists.mjs', { args: ['slow', '500'] });
    const cancel = new AbortController();
    const impatient = pool.listTools(record, { signal: cancel.signal });
    const patient = pool.listTools(record);
    cancel.abort();
    await expect(impatient).rejects.toMatchObject({ code: 'mcp_cancelled' });
    expect((await patient).tools).toHaveLength(1);
    expect(await textOf(call(pool, record, 'asked'))).toBe('1');
  });

  it('has its own deadline, and a slow one does not hold up the others', async () => {
    const { pool } = openPool({ limits: { listTimeoutMs: 3_000 } });
    const slow = pool.listTools(stdioRecord('slow', 'lists.mjs', { args: ['slow', '600000'] }));
    const failed = expect(slow).rejects.toMatchObject({
      code: 'mcp_timeout',
      message: expect.stringContaining('3000 ms'),
    });
    const quick = await pool.listTools(stdioRecord('quick', 'lists.mjs', { args: ['slow', '0'] }));
    expect(quick.tools).toHaveLength(1);
    await failed;
  });

  it('is asked again after its time to live, with the same version where nothing changed', async () => {
    let now = 1_000_000;
    const { pool } = openPool({ now: () => now });
    const record = stdioRecord('slow', 'lists.mjs', { args: ['slow', '0'] });
    const first = await pool.listTools(record);
    now += 59_000;
    await pool.listTools(record);
    expect(await textOf(call(pool, record, 'asked'))).toBe('1');
    now += 2_000;
    const second = await pool.listTools(record);
    expect(await textOf(call(pool, record, 'asked'))).toBe('2');
    expect(second.version).toBe(first.version);
  });

  it('is tried again after a failure was kept for a while', async () => {
    let now = 1_000_000;
    const trail = join(tempDir(), 'trail');
    const { pool } = openPool({ now: () => now });
    const record = stdioRecord('fails', 'lists.mjs', { args: ['fails'], env: { TRAIL: trail } });
    await expect(pool.listTools(record)).rejects.toThrow();
    now += 2_001;
    await expect(pool.listTools(record)).rejects.toThrow();
    expect(lines(trail)).toBe(2);
  });
});

describe('a server that changes its tools', () => {
  it('is listed anew, with another version', async () => {
    const { pool } = openPool();
    const record = stdioRecord('changing', 'changing.mjs');
    const before = await pool.listTools(record);
    expect(before.tools.map(({ name }) => name)).toEqual(['grow']);
    const added = await textOf(call(pool, record, 'grow'));
    await eventually(async () => {
      const after = await pool.listTools(record);
      expect(after.tools.map(({ name }) => name)).toEqual(['grow', added]);
      expect(after.version).toBeGreaterThan(before.version);
    });
    expect(await textOf(call(pool, record, added))).toBe(added);
  });

  it('while it is being listed is asked again by the next reader', async () => {
    const { pool } = openPool();
    const record = stdioRecord('changing', 'lists.mjs', { args: ['changed_meanwhile'] });
    const first = await pool.listTools(record);
    const second = await pool.listTools(record);
    expect(first.tools.map(({ name }) => name)).toEqual(['asked', 'version_1']);
    expect(second.tools.map(({ name }) => name)).toEqual(['asked', 'version_2']);
    expect(await pool.listTools(record)).toBe(second);
  });
});
