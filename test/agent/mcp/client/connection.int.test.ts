import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sampleRecord } from '../../../server/records/server-samples.ts';
import { eraHas } from '../../../support/server-era.ts';
import {
  call,
  eventually,
  fixture,
  isAlive,
  openPool,
  processesWith,
  stdioRecord,
  tempDir,
  textOf,
} from './pool-samples.ts';

describe('a connection', () => {
  it('is made when first needed, once for all who need it', async () => {
    const { pool, log } = openPool();
    const record = stdioRecord('tiny', 'tiny.mjs');
    expect(pool.health()).toEqual([]);
    const pids = await Promise.all(Array.from({ length: 8 }, () => textOf(call(pool, record, 'pid'))));
    expect(new Set(pids).size).toBe(1);
    expect(log.filter(({ event }) => event === 'connected')).toHaveLength(1);
    expect(pool.health()).toEqual([
      {
        serverId: 'tiny',
        state: 'connected',
        lastError: null,
        reconnects: 0,
        connectedAtMs: expect.any(Number),
        toolCount: 5,
        latencyMs: expect.any(Number),
      },
    ]);
  });

  it('is closed when nobody needs it, and made again', async () => {
    const { pool } = openPool({ limits: { idleTimeoutMs: 50 } });
    const record = stdioRecord('mid', 'mid-call.mjs', { budgets: { tool_timeout_ms: 60_000 } });
    const pid = Number(await textOf(call(pool, record, 'pid')));
    await eventually(() => expect(isAlive(pid)).toBe(false));
    expect(pool.health()[0]).toMatchObject({ state: 'idle', lastError: null, connectedAtMs: null });
    expect(Number(await textOf(call(pool, record, 'pid')))).not.toBe(pid);
    expect(pool.health()[0]?.reconnects).toBe(0);
  });

  it('is not closed under a call', async () => {
    const { pool } = openPool({ limits: { idleTimeoutMs: 20 } });
    const record = stdioRecord('counting', 'counting.mjs');
    expect(await textOf(call(pool, record, 'work', { label: 'long', ms: 500 }))).toBe('long');
  });

  it('that cannot be made is down, is not tried again for a moment, and recovers', async () => {
    let now = 1_000_000;
    const script = join(tempDir(), 'server.mjs');
    const trail = join(tempDir(), 'trail');
    writeFileSync(
      script,
      `import { appendFileSync } from 'node:fs'; appendFileSync(${JSON.stringify(trail)}, 'x');
      process.stderr.write('no database\\n'); process.exit(7);`,
    );
    const { pool } = openPool({ now: () => now });
    const record = stdioRecord('broken', script);
    const outcome = await call(pool, record, 'pid');
    expect(outcome).toMatchObject({ dispatched: false, error: { code: 'mcp_unavailable', retryable: true } });
    expect(outcome.error?.message).toContain('exit code 7');
    expect(outcome.error?.message).toContain('no database');
    expect(pool.health()[0]).toMatchObject({ state: 'down', lastError: expect.stringContaining('exit code 7') });
    await call(pool, record, 'pid');
    // Once it was asked for its era, and once greeted the old way: it might not have borne the question.
    expect(readFileSync(trail, 'utf8')).toBe('xx');

    now += 2_001;
    writeFileSync(script, readFileSync(fixture('tiny.mjs'), 'utf8').replace('./raw-rpc.mjs', fixture('raw-rpc.mjs')));
    expect((await call(pool, record, 'pid')).ok).toBe(true);
    expect(pool.health()[0]?.state).toBe('connected');
  });

  it('that was lost is tried 3 times before it counts as down [pool.reconnect]', async () => {
    const dir = tempDir();
    const trail = join(dir, 'trail');
    const script = join(dir, 'server.mjs');
    // Works until the file `broken` exists.
    writeFileSync(
      script,
      `import { appendFileSync, existsSync } from 'node:fs'; appendFileSync(${JSON.stringify(trail)}, 'x');
       if (existsSync(${JSON.stringify(join(dir, 'broken'))})) process.exit(1);
       await import(${JSON.stringify(fixture('mid-call.mjs'))});`,
    );
    const { pool } = openPool({ limits: { reconnectBaseMs: 20 } });
    const record = stdioRecord('flaky', script);
    await textOf(call(pool, record, 'pid'));
    writeFileSync(join(dir, 'broken'), '');
    expect((await call(pool, record, 'die')).ok).toBe(false);
    expect(pool.health()[0]?.state).toBe('degraded');
    expect(await call(pool, record, 'pid')).toMatchObject({ dispatched: false, error: { code: 'mcp_unavailable' } });
    expect(readFileSync(trail, 'utf8')).toBe('x'.repeat(1 + 3));
    expect(pool.health()[0]?.state).toBe('down');
  });

  it.each([
    ['a command that does not exist', { command: 'no-such-command-here' }, /no-such-command-here.*no such command/],
    ['a command that is no program', { command: '/etc/passwd' }, /permission denied to execute it/],
    ['a directory that does not exist', { command: '/bin/sh', cwd: '/no/such/dir' }, /stdio\.cwd does not exist/],
  ])('with %s says so, and is not retryable', async (_, stdio, message) => {
    const { pool } = openPool();
    const outcome = await call(pool, sampleRecord('wrong', { stdio }), 'pid');
    expect(outcome).toMatchObject({ dispatched: false, error: { code: 'mcp_unavailable', retryable: false } });
    expect(outcome.error?.message).toMatch(message);
    expect(pool.stats().subprocesses).toBe(0);
  });
});

describe('a state directory that cannot be used', () => {
  it('is named in the error', async () => {
    const file = join(tempDir(), 'file');
    writeFileSync(file, '');
    const { pool } = openPool({ stateDir: file });
    const outcome = await call(pool, stdioRecord('tiny', 'tiny.mjs'), 'pid');
    expect(outcome).toMatchObject({ dispatched: false, error: { code: 'mcp_unavailable', retryable: false } });
    expect(outcome.error?.message).toContain(file);
    expect(pool.stats().subprocesses).toBe(0);
  });
});

if (eraHas('versions'))
  describe('a server of an older protocol', () => {
    it.each(['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'])(
      '%s is served [pool.protocol-versions]',
      async (version) => {
        const { pool } = openPool();
        const record = stdioRecord('old', 'tiny.mjs', { env: { PROTOCOL_VERSION: version } });
        expect(await textOf(call(pool, record, 'echo', { message: version }))).toBe(version);
      },
    );

    it('that nobody knows is refused by name [pool.protocol-versions]', async () => {
      const { pool } = openPool();
      const record = stdioRecord('odd', 'tiny.mjs', { env: { PROTOCOL_VERSION: '1999-12-31' } });
      const outcome = await call(pool, record, 'pid');
      expect(outcome).toMatchObject({ dispatched: false, error: { code: 'mcp_unavailable' } });
      expect(outcome.error?.message).toContain('1999-12-31');
      await eventually(() => expect(pool.stats().subprocesses).toBe(0));
    });
  });

describe('a pool that is closed', () => {
  it('ends what is in flight, all its processes, and takes nothing more', async () => {
    const marker = `marker-${process.pid}-${performance.now()}`;
    const { pool } = openPool();
    const budgets = { budgets: { tool_timeout_ms: 60_000, connect_timeout_ms: 60_000 } };
    const record = stdioRecord('mid', 'mid-call.mjs', { env: { MARKER: marker }, ...budgets });
    const mute = stdioRecord('mute', 'mute.mjs', { env: { MARKER: marker }, ...budgets });
    await textOf(call(pool, record, 'pid'));
    const hanging = call(pool, record, 'hang');
    const connecting = call(pool, mute, 'anything');
    await eventually(() => expect(pool.stats()).toMatchObject({ subprocesses: 2, callsInFlight: 1 }));
    await pool.close();
    expect(await hanging).toMatchObject({ dispatched: true, error: { code: 'mcp_cancelled' } });
    expect(await connecting).toMatchObject({ dispatched: false, error: { code: 'mcp_cancelled' } });
    expect(processesWith(marker)).toEqual([]);
    expect(await call(pool, record, 'pid')).toMatchObject({ dispatched: false, error: { code: 'mcp_unavailable' } });
    await expect(pool.listTools(record)).rejects.toThrow('closed');
    await pool.close();
  });

  it('kills what does not end within its deadline', async () => {
    const { pool } = openPool({ limits: { stdinGraceMs: 60_000, termGraceMs: 60_000 } });
    const pids = JSON.parse(await textOf(call(pool, stdioRecord('stubborn', 'stubborn.mjs'), 'pids'))) as number[];
    await pool.close(300);
    expect(pids.map(isAlive)).toEqual([false, false]);
  });
});
