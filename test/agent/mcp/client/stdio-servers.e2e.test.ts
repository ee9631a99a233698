import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import packageJson from '../../../../package.json' with { type: 'json' };
import { referenceTo } from '../../../../src/server/secrets/references.ts';
import { eraHas } from '../../../support/server-era.ts';
import { call, eventually, isAlive, openPool, parsed, stdioRecord, tempDir, textOf } from './pool-samples.ts';

const trailOf = (path: string) => readFileSync(path, 'utf8').trim().split('\n');

describe('a server killed in the middle of a call', () => {
  it('fails the call at once and is started again for the next one', async () => {
    const { pool, log } = openPool();
    const record = stdioRecord('mid', 'mid-call.mjs', { budgets: { tool_timeout_ms: 60_000 } });
    const pid = Number(await textOf(call(pool, record, 'pid')));
    const hanging = call(pool, record, 'hang');
    const outcome = await call(pool, record, 'die');
    expect(outcome).toMatchObject({ ok: false, dispatched: true, error: { code: 'mcp_unavailable', retryable: true } });
    expect(outcome.error?.message).toContain('signal SIGKILL');
    expect((await hanging).error?.code).toBe('mcp_unavailable');
    expect(pool.health()[0]).toMatchObject({ state: 'degraded', lastError: expect.stringContaining('SIGKILL') });
    expect(log.map(({ event }) => event)).toContain('connection_lost');

    const next = Number(await textOf(call(pool, record, 'pid')));
    expect(next).not.toBe(pid);
    expect(pool.health()[0]).toMatchObject({ state: 'connected', reconnects: 1 });
  });

  it('has its last words in the error', async () => {
    const { pool } = openPool();
    const outcome = await call(pool, stdioRecord('mid', 'mid-call.mjs'), 'leave');
    expect(outcome.error?.message).toContain('exit code 3');
    expect(outcome.error?.message).toContain('the disk is full');
  });

  it('is noticed when it only closes its stdout', async () => {
    const { pool } = openPool();
    const record = stdioRecord('mid', 'mid-call.mjs', { budgets: { tool_timeout_ms: 60_000 } });
    const pid = Number(await textOf(call(pool, record, 'pid')));
    const outcome = await call(pool, record, 'close_stdout');
    expect(outcome.error?.code).toBe('mcp_unavailable');
    await eventually(() => expect(isAlive(pid)).toBe(false));
  });

  it('still gets its last answer through', async () => {
    const { pool } = openPool();
    expect(await textOf(call(pool, stdioRecord('mid', 'mid-call.mjs'), 'answer_and_exit'))).toBe('last words');
  });

  it('never gets a call a second time [pool.no-replay]', async () => {
    const trail = join(tempDir(), 'trail');
    const { pool } = openPool();
    const record = stdioRecord('mid', 'mid-call.mjs', { env: { TRAIL: trail } });
    expect((await call(pool, record, 'die')).ok).toBe(false);
    expect((await call(pool, record, 'pid')).ok).toBe(true);
    expect(trailOf(trail)).toEqual(['die']);
  });
});

it('a server is told the version of this package', async () => {
  const { pool } = openPool();
  const told = JSON.parse(await textOf(call(pool, stdioRecord('curious', 'client.mjs'), 'client')));
  expect(told).toEqual({ name: 'spear', version: packageJson.version });
});

describe('a server that never answers', () => {
  it('fails the call at its deadline and is told that it was cancelled', async () => {
    const trail = join(tempDir(), 'trail');
    const { pool } = openPool();
    const record = stdioRecord('mid', 'mid-call.mjs', { env: { TRAIL: trail }, budgets: { tool_timeout_ms: 60_000 } });
    const outcome = await call(pool, record, 'hang', {}, { timeoutMs: 300 });
    expect(outcome).toMatchObject({ ok: false, dispatched: true, error: { code: 'mcp_timeout', retryable: true } });
    expect(outcome.error?.message).toContain('300 ms');
    await eventually(() => expect(trailOf(trail)).toHaveLength(2));
    const [called, cancelled] = trailOf(trail);
    expect(cancelled).toBe(called?.replace('call', 'cancelled'));
    expect(await textOf(call(pool, record, 'pid'))).toMatch(/^\d+$/);
  });

  it('is told when the caller gives up', async () => {
    const trail = join(tempDir(), 'trail');
    const { pool } = openPool();
    const record = stdioRecord('mid', 'mid-call.mjs', { env: { TRAIL: trail }, budgets: { tool_timeout_ms: 60_000 } });
    const cancel = new AbortController();
    const outcome = call(pool, record, 'hang', {}, { signal: cancel.signal });
    await eventually(() => expect(trailOf(trail)).toHaveLength(1));
    cancel.abort();
    expect(await outcome).toMatchObject({ ok: false, error: { code: 'mcp_cancelled', retryable: false } });
    await eventually(() => expect(trailOf(trail)[1]).toMatch(/^cancelled spear-\d+$/));
  });

  it('does not see a call that was cancelled before it was sent', async () => {
    const { pool } = openPool();
    const outcome = await call(pool, stdioRecord('mid', 'mid-call.mjs'), 'hang', {}, { signal: AbortSignal.abort() });
    expect(outcome).toMatchObject({ ok: false, dispatched: false, error: { code: 'mcp_cancelled' } });
  });

  it('takes no longer to connect than its own deadline', async () => {
    const { pool } = openPool();
    const record = stdioRecord('mute', 'mute.mjs', { budgets: { connect_timeout_ms: 1_500, tool_timeout_ms: 100 } });
    const outcome = await call(pool, record, 'anything');
    expect(outcome).toMatchObject({ ok: false, dispatched: false, error: { code: 'mcp_timeout' } });
    expect(outcome.durationMs).toBeGreaterThanOrEqual(1_400);
    expect(outcome.error?.message).toContain('1500 ms');
    expect(pool.health()[0]?.state).toBe('down');
  });
});

describe('a server that prints garbage', () => {
  it('works as long as it is no flood, and that is said once', async () => {
    const { pool, log } = openPool();
    const record = stdioRecord('garbage', 'garbage.mjs', { args: ['5000'] });
    expect(await textOf(call(pool, record, 'echo', { message: 'clear' }))).toBe('clear');
    expect(log.filter(({ event }) => event === 'stdout_garbage')).toHaveLength(1);
  });

  it('may write any amount of it, over time', async () => {
    const { pool, log } = openPool({ limits: { maxGarbageLines: 1_000, garbageWindowMs: 1 } });
    const record = stdioRecord('garbage', 'garbage.mjs', { args: ['0'] });
    expect(await textOf(call(pool, record, 'slow_garbage', { lines: 3_000 }))).toBe('done');
    expect(log.filter(({ event }) => event === 'stdout_garbage').length).toBeGreaterThan(1);
  });

  it('is given up when it is a flood', async () => {
    const { pool } = openPool({ limits: { maxGarbageLines: 1_000 } });
    const record = stdioRecord('garbage', 'garbage.mjs', { budgets: { tool_timeout_ms: 60_000 } });
    const outcome = await call(pool, record, 'flood');
    expect(outcome.error?.code).toBe('mcp_unavailable');
    expect(outcome.error?.message).toContain('lines to stdout that are not MCP messages');
    expect(await textOf(call(pool, record, 'echo', { message: 'again' }))).toBe('again');
  });

  it('is given up when a line never ends', async () => {
    const { pool } = openPool({ limits: { maxMessageBytes: 64 * 1024 } });
    const record = stdioRecord('garbage', 'garbage.mjs', { budgets: { tool_timeout_ms: 60_000 } });
    const outcome = await call(pool, record, 'endless_line');
    expect(outcome.error?.message).toContain('a message without an end');
  });
});

describe('a server that returns 50 MB', () => {
  const bytes = 50_000_000;

  it.each(['huge', 'huge_id_last'])('%s: fails that call alone, showing its beginning', async (tool) => {
    const { pool } = openPool();
    const record = stdioRecord('huge', 'huge.mjs', { budgets: { tool_timeout_ms: 60_000 } });
    const pid = await textOf(call(pool, record, 'pid'));
    const outcome = await call(pool, record, tool, { bytes });
    expect(outcome).toMatchObject({ ok: false, error: { code: 'mcp_output_too_large', retryable: false } });
    expect(outcome.bytes).toBeLessThanOrEqual(65_536);
    expect(parsed(outcome).content?.[0]?.text).toMatch(/^(ä+|b+)… \[truncated\]$/);
    expect(await textOf(call(pool, record, 'pid'))).toBe(pid);
  });

  it('in something that is no answer loses its connection', async () => {
    const { pool } = openPool();
    const record = stdioRecord('huge', 'huge.mjs', { budgets: { tool_timeout_ms: 60_000 } });
    const outcome = await call(pool, record, 'huge_notification', { bytes });
    expect(outcome.error?.code).toBe('mcp_unavailable');
    expect(outcome.error?.message).toContain('50000');
  });

  it('is cut to what the record or the caller allows [pool.result.too-large]', async () => {
    const { pool } = openPool();
    const record = stdioRecord('huge', 'huge.mjs', { budgets: { max_tool_output_bytes: 2_000 } });
    expect((await call(pool, record, 'huge', { bytes: 100_000 })).bytes).toBeGreaterThan(1_900);
    expect((await call(pool, record, 'huge', { bytes: 100_000 })).bytes).toBeLessThanOrEqual(2_000);
    expect((await call(pool, record, 'huge', { bytes: 100_000 }, { maxOutputBytes: 900 })).bytes).toBeLessThanOrEqual(
      900,
    );
    expect((await call(pool, record, 'huge', { bytes: 100_000 }, { maxOutputBytes: 9_000 })).bytes).toBeLessThanOrEqual(
      2_000,
    );
    expect((await call(pool, record, 'huge', { bytes: 1_000 })).ok).toBe(true);
  });
});

describe('a server that does not read', () => {
  it('is given up before what waits for it fills the memory', async () => {
    const { pool, log } = openPool({ limits: { maxMessageBytes: 64 * 1024 } });
    const record = stdioRecord('deaf', 'deaf.mjs');
    await textOf(call(pool, record, 'stop_reading'));
    const lost = () => log.some(({ event }) => event === 'connection_lost');
    let calls = 0;
    for (; calls < 50 && !lost(); calls++) {
      const outcome = await call(pool, record, 'store', { data: 'd'.repeat(60_000) }, { timeoutMs: 20 });
      expect(outcome.error?.code).toMatch(/^mcp_(timeout|unavailable)$/);
    }
    expect(calls).toBeLessThan(50);
    expect(pool.health()[0]?.lastError).toContain('does not read its stdin');
    expect(await textOf(call(pool, record, 'store'))).toBe('stored');
  });
});

if (eraHas('processes'))
  describe('grandchildren', () => {
    it('that keep the pipe open do not hide the death of their server', async () => {
      const { pool } = openPool({ limits: { termGraceMs: 60_000 } });
      const record = stdioRecord('parent', 'grandchild.mjs', { budgets: { tool_timeout_ms: 60_000 } });
      const grandchild = Number(await textOf(call(pool, record, 'start_held')));
      const outcome = await call(pool, record, 'leave');
      // Long before the call's own deadline, which the open pipe would have been waited for until.
      expect(outcome.error?.message).toContain('signal SIGKILL');
      await pool.close(100);
      expect(isAlive(grandchild)).toBe(false);
    });

    it('that keep the pipe open end with their server', async () => {
      const { pool } = openPool();
      const record = stdioRecord('parent', 'grandchild.mjs');
      const grandchild = Number(await textOf(call(pool, record, 'start_held')));
      expect((await call(pool, record, 'leave')).ok).toBe(false);
      await eventually(() => expect(isAlive(grandchild)).toBe(false));
    });

    it('that left the process group end too', async () => {
      const { pool, log } = openPool();
      const record = stdioRecord('parent', 'grandchild.mjs');
      const held = Number(await textOf(call(pool, record, 'start_held')));
      const away = Number(await textOf(call(pool, record, 'start_away')));
      expect([isAlive(held), isAlive(away)]).toEqual([true, true]);
      await pool.close();
      expect([isAlive(held), isAlive(away)]).toEqual([false, false]);
      expect(log.map(({ event }) => event)).toContain('process_leftover');
    });

    it('and a server that ignore every request to end are killed', async () => {
      const { pool } = openPool();
      const pids = JSON.parse(await textOf(call(pool, stdioRecord('stubborn', 'stubborn.mjs'), 'pids'))) as number[];
      await pool.close();
      expect(pids.map(isAlive)).toEqual([false, false]);
    });
  });

if (eraHas('processes'))
  describe('the surroundings of a server', () => {
    it('are its record, PATH and private directories, nothing of the host [pool.stdio.environment]', async () => {
      // Short enough to be shown in a result.
      const { pool, stateDir } = openPool({ variables: { MCP_TOKEN: 'host-1' } });
      const record = stdioRecord('tiny', 'tiny.mjs', { env: { GIVEN: '1', TOKEN: referenceTo('MCP_TOKEN') } });
      const environment = JSON.parse(await textOf(call(pool, record, 'environment')));
      expect(environment).toEqual({
        GIVEN: '1',
        TOKEN: 'host-1',
        PATH: '/usr/local/bin:/usr/bin:/bin',
        HOME: expect.stringMatching(new RegExp(`^${stateDir}/home/tiny-[0-9a-f]{12}$`)),
        TMPDIR: expect.stringContaining('spear-mcp-'),
      });
      expect(statSync(environment.HOME).mode & 0o777).toBe(0o700);
      expect(statSync(environment.TMPDIR).mode & 0o777).toBe(0o700);
      await pool.close();
      expect(statSync(environment.HOME).isDirectory()).toBe(true);
      expect(() => statSync(environment.TMPDIR)).toThrow(/ENOENT/);
    });

    it('may override all of them [pool.stdio.environment]', async () => {
      const { pool } = openPool();
      const record = stdioRecord('tiny', 'tiny.mjs', { env: { PATH: '/bin', HOME: '/', TMPDIR: '/tmp' } });
      const environment = JSON.parse(await textOf(call(pool, record, 'environment')));
      expect(environment).toEqual({ PATH: '/bin', HOME: '/', TMPDIR: '/tmp' });
    });
  });
