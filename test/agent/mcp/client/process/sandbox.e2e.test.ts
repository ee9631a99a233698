import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { McpPool } from '../../../../../src/agent/mcp/client/pool.ts';
import type { McpServerRecord } from '../../../../../src/server/records/server.ts';
import { needsBubblewrap, skipIfMissing } from '../../../../support/needs.ts';
import {
  call,
  eventually,
  fixture,
  isAlive,
  npmServer,
  openPool,
  parsed,
  processesWith,
  stdioRecord,
  tempDir,
  textOf,
} from '../pool-samples.ts';

const servers = dirname(fixture('confined.mjs'));
const patient = { connect_timeout_ms: 60_000, tool_timeout_ms: 60_000 };

function confined(sandbox: Record<string, unknown> = {}, more: { env?: Record<string, string> } = {}): McpServerRecord {
  const { read_only_paths: readOnly = [], ...rest } = sandbox as { read_only_paths?: string[] };
  return stdioRecord('confined', 'confined.mjs', {
    budgets: patient,
    sandbox: { mode: 'required', network: 'deny', read_only_paths: [servers, ...readOnly], ...rest },
    ...more,
  });
}

/** The system error code of a failed call. */
async function refusalOf(pool: McpPool, record: McpServerRecord, tool: string, args: Record<string, string>) {
  const outcome = await call(pool, record, tool, args);
  expect(outcome.ok).toBe(false);
  return parsed(outcome).content?.[0]?.text;
}

describe('a sandboxed server', () => {
  skipIfMissing(needsBubblewrap());

  it('reads only the listed paths [sandbox.files]', async () => {
    const dir = tempDir();
    mkdirSync(join(dir, 'listed'));
    writeFileSync(join(dir, 'listed', 'a'), 'for the server');
    writeFileSync(join(dir, 'secret'), 'not for the server');
    const { pool } = openPool();
    const record = confined({ read_only_paths: [join(dir, 'listed')] });
    expect(await textOf(call(pool, record, 'read', { path: join(dir, 'listed', 'a') }))).toBe('for the server');
    expect(await refusalOf(pool, record, 'read', { path: join(dir, 'secret') })).toBe('ENOENT');
    for (const path of [
      '/etc/passwd',
      '/etc/shadow',
      fileURLToPath(import.meta.url),
      join(process.cwd(), 'package.json'),
    ])
      expect(await refusalOf(pool, record, 'read', { path }), path).toBe('ENOENT');
  });

  it('writes only to the writable paths [sandbox.files]', async () => {
    const dir = tempDir();
    for (const name of ['writable', 'readonly', 'both']) mkdirSync(join(dir, name));
    const { pool } = openPool();
    const record = confined({
      read_only_paths: [join(dir, 'readonly'), join(dir, 'both')],
      writable_paths: [join(dir, 'writable'), join(dir, 'both')],
    });
    expect(await textOf(call(pool, record, 'write', { path: join(dir, 'writable', 'a') }))).toBe('written');
    expect(readFileSync(join(dir, 'writable', 'a'), 'utf8')).toBe('written');
    for (const path of [join(dir, 'readonly', 'a'), join(dir, 'both', 'a'), '/usr/a', '/a', fixture('tiny.mjs')])
      expect(await refusalOf(pool, record, 'write', { path }), path).toMatch(/^EROFS|EACCES$/);
    // Its own /tmp is not that of the machine.
    const name = `/tmp/spear-sandbox-${process.pid}`;
    expect(await textOf(call(pool, record, 'write', { path: name }))).toBe('written');
    expect(existsSync(name)).toBe(false);
  });

  it('has a private home and temporary directory', async () => {
    const { pool, stateDir } = openPool();
    const record = confined();
    const { HOME = '', TMPDIR = '' } = JSON.parse(await textOf(call(pool, record, 'environment'))) as NodeJS.ProcessEnv;
    expect(HOME.startsWith(join(stateDir, 'home', 'confined-'))).toBe(true);
    for (const folder of [HOME, TMPDIR]) {
      expect(await textOf(call(pool, record, 'write', { path: join(folder, 'mine') }))).toBe('written');
      expect(readFileSync(join(folder, 'mine'), 'utf8')).toBe('written');
    }
    expect(JSON.parse(await textOf(call(pool, record, 'place')))).toMatchObject({ cwd: HOME });
    await pool.close();
    expect(existsSync(TMPDIR)).toBe(false);
  });

  it.each([
    ['deny', 'ECONNREFUSED'],
    ['allow', 'connected'],
  ])('with network %s: connecting to a port of the machine gives %s [sandbox.network]', async (network, answer) => {
    const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const { pool } = openPool();
    const record = confined({ network });
    expect(await textOf(call(pool, record, 'reach', { port }))).toBe(answer);
    const resolver = await call(pool, record, 'read', { path: '/etc/resolv.conf' });
    expect(resolver.ok).toBe(network === 'allow' && existsSync('/etc/resolv.conf'));
  });

  it('sees neither the processes nor the environment of the host [sandbox.processes]', async () => {
    const { pool } = openPool({ variables: { MCP_KEY: 'key-for-the-server' } });
    const record = confined({}, { env: { OWN: `\${ENV:MCP_KEY}`, LD_LIBRARY_PATH: '/nowhere', EMPTY: '' } });
    const seen = JSON.parse(await textOf(call(pool, record, 'processes'))) as string[];
    expect(seen.filter((line) => line.includes('vitest'))).toEqual([]);
    expect(seen.length).toBeLessThanOrEqual(3);
    // Nothing of what is given to it stands on a command line, where others could read it.
    expect(seen.join('\n')).not.toContain('key-for-the-server');
    const environment = JSON.parse(await textOf(call(pool, record, 'environment'))) as object;
    expect(environment).toMatchObject({ OWN: '[redacted]', LD_LIBRARY_PATH: '/nowhere', EMPTY: '' });
    expect(Object.keys(environment).sort()).toEqual([
      'EMPTY',
      'HOME',
      'LD_LIBRARY_PATH',
      'OWN',
      'PATH',
      'PWD',
      'TMPDIR',
    ]);
  });

  it('has no privileges and cannot get any', async () => {
    const { pool } = openPool();
    const status = await textOf(call(pool, confined(), 'privileges'));
    expect(status).toMatch(/^CapEff:\s+0+$/m);
    expect(status).toMatch(/^CapBnd:\s+0+$/m);
    expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
  });

  it('is found through a symbolic link, and its command need not be listed [sandbox.files]', async () => {
    const dir = tempDir();
    mkdirSync(join(dir, 'bin'));
    symlinkSync(process.execPath, join(dir, 'bin', 'runner'));
    const { pool } = openPool();
    const { stdio, ...rest } = confined();
    const env = { PATH: join(dir, 'bin') };
    const record = { ...rest, stdio: { command: 'runner', args: stdio?.args ?? [], env, cwd: null } };
    expect(JSON.parse(await textOf(call(pool, record, 'place')))).toHaveProperty('pid');
  });

  it('can be an npm server [sandbox.files]', async () => {
    const notes = tempDir();
    const outside = tempDir();
    writeFileSync(join(notes, 'a.md'), 'a note');
    const { pool } = openPool();
    const record = stdioRecord('notes', npmServer('filesystem'), {
      args: [notes, outside],
      budgets: patient,
      sandbox: { network: 'deny', read_only_paths: [join(process.cwd(), 'node_modules'), notes] },
    });
    expect(await textOf(call(pool, record, 'read_text_file', { path: join(notes, 'a.md') }))).toBe('a note');
    const refused = await call(pool, record, 'write_file', { path: join(notes, 'b.md'), content: 'x' });
    expect(refused.ok).toBe(false);
    expect(readdirSync(notes)).toEqual(['a.md']);
  });
});

describe('the end of a sandboxed server', () => {
  skipIfMissing(needsBubblewrap());

  it('ends all of its processes when the pool closes', async () => {
    const { pool } = openPool();
    const record = stdioRecord('group', 'grandchild.mjs', {
      budgets: patient,
      sandbox: { network: 'deny', read_only_paths: [servers] },
    });
    await pool.listTools(record);
    const { TMPDIR } = JSON.parse(await textOf(call(pool, confined(), 'environment'))) as NodeJS.ProcessEnv;
    const mark = dirname(String(TMPDIR));
    expect(processesWith(mark).length).toBeGreaterThan(2);
    await pool.close();
    await eventually(() => expect(processesWith(mark)).toEqual([]));
  });

  it('is detected, whatever the cause', async () => {
    const { pool } = openPool();
    const record = confined();
    const { TMPDIR } = JSON.parse(await textOf(call(pool, record, 'environment'))) as NodeJS.ProcessEnv;
    const inside = processesWith(`TMPDIR=${TMPDIR}`).find((pid) =>
      readFileSync(`/proc/${pid}/cmdline`, 'latin1').startsWith(process.execPath),
    );
    process.kill(inside ?? 0, 'SIGKILL');
    await eventually(() => expect(pool.health()[0]).toMatchObject({ state: 'degraded' }));
    expect(pool.health()[0]?.lastError).toContain('the server process ended (exit code 137)');
    expect(isAlive(inside ?? 0)).toBe(false);
    expect(await textOf(call(pool, record, 'place'))).toContain('pid');
  });
});

describe('a server that dies at its start in a sandbox', () => {
  skipIfMissing(needsBubblewrap());

  it('has the hidden paths named in its error', async () => {
    const { pool } = openPool();
    const record = stdioRecord('confined', 'confined.mjs', { budgets: patient, sandbox: { network: 'deny' } });
    const outcome = await call(pool, record, 'place');
    expect(outcome.error?.message).toContain(`not visible: ${fixture('confined.mjs')}`);
    expect(outcome.error?.message).toContain('sandbox.read_only_paths');
  });

  it.each([
    ['/no/such/path', 'does not exist on this node'],
    ['relative', 'must be an absolute path'],
    ['/proc', 'would expose the processes of the host; a sandbox has its own /proc'],
    ['/./proc', 'would expose the processes of the host; a sandbox has its own /proc'],
    ['/usr/../proc/1', 'would expose the processes of the host; a sandbox has its own /proc'],
  ])('for a listed path %s gets an error that names it', async (path, problem) => {
    const { pool } = openPool();
    const outcome = await call(pool, confined({ writable_paths: [path] }), 'place');
    expect(outcome).toMatchObject({ dispatched: false, error: { code: 'mcp_unavailable', retryable: false } });
    expect(outcome.error?.message).toContain(`sandbox.writable_paths: "${path}" ${problem}`);
  });
});

describe('a node that runs stdio servers in sandboxes only', () => {
  skipIfMissing(needsBubblewrap());

  const listed = { mode: 'none', network: 'deny', read_only_paths: [servers] } as const;

  it.each(['none', 'preferred'] as const)('runs a server in a sandbox if its record says %s', async (mode) => {
    const { pool } = openPool({ stdio: 'sandboxed' });
    const record = confined({ ...listed, mode });
    const parent = `/proc/${process.ppid}/environ`;
    expect(await refusalOf(pool, record, 'read', { path: parent })).toBe('ENOENT');
    expect(await refusalOf(pool, record, 'read', { path: '/etc/passwd' })).toBe('ENOENT');
  });

  it('gives a server without sandbox settings the default sandbox', async () => {
    const { pool } = openPool({ stdio: 'sandboxed' });
    const outcome = await call(pool, stdioRecord('bare', 'confined.mjs', { budgets: patient }), 'place');
    expect(outcome.error?.message).toContain(`not visible: ${fixture('confined.mjs')}`);
  });

  it('refuses stdio servers if no sandbox is available, with the reason', async () => {
    const { pool } = openPool({ stdio: 'sandboxed', sandboxCommand: '/no/such/bwrap' });
    const outcome = await call(pool, confined({ mode: 'preferred' }), 'place');
    expect(outcome).toMatchObject({ dispatched: false, error: { code: 'mcp_unavailable', retryable: false } });
    expect(outcome.error?.message).toContain('mcp.stdio of this node is "sandboxed", but no sandbox is available');
  });
});

it('a node that runs no stdio servers starts nothing', async () => {
  const { pool, stateDir } = openPool({ stdio: 'deny' });
  const outcome = await call(pool, stdioRecord('tiny', 'tiny.mjs'), 'pid');
  expect(outcome).toMatchObject({ dispatched: false, error: { code: 'mcp_unavailable', retryable: false } });
  expect(outcome.error?.message).toContain('this node does not run stdio servers (mcp.stdio = "deny")');
  expect(existsSync(join(stateDir, 'home'))).toBe(false);
});

describe('without a sandbox on the node', () => {
  /** Installed, and forbidden to make namespaces. */
  function brokenBwrap(): string {
    const file = join(tempDir(), 'bwrap');
    writeFileSync(file, '#!/bin/sh\necho "bwrap: No permissions to create new namespace" >&2\nexit 1\n');
    chmodSync(file, 0o755);
    return file;
  }

  it.each([
    ['absent', () => '/no/such/bwrap', 'install bubblewrap'],
    ['broken', brokenBwrap, 'does not work here: bwrap: No permissions to create new namespace'],
  ])('(%s) a server that requires one is refused, not run without [sandbox.required]', async (_, command, why) => {
    const { pool } = openPool({ sandboxCommand: command() });
    const dir = tempDir();
    const record = confined({ writable_paths: [dir] });
    const outcome = await call(pool, record, 'write', { path: join(dir, 'a') });
    expect(outcome).toMatchObject({ dispatched: false, error: { code: 'mcp_unavailable', retryable: false } });
    expect(outcome.error?.message).toContain('sandbox.mode is "required"');
    expect(outcome.error?.message).toContain(why);
    expect(readdirSync(dir)).toEqual([]);
    expect(pool.stats().subprocesses).toBe(0);
  });

  it('a server that prefers one runs without, with one warning', async () => {
    const { pool, log } = openPool({ sandboxCommand: '/no/such/bwrap', limits: { idleTimeoutMs: 10 } });
    const record = confined({ mode: 'preferred' });
    for (let round = 0; round < 2; round++) {
      expect(await textOf(call(pool, record, 'place'))).toContain('pid');
      await eventually(() => expect(pool.health()[0]?.state).toBe('idle'));
    }
    const warnings = log.filter(({ event }) => event === 'sandbox_missing');
    expect(warnings).toMatchObject([{ level: 'warn', serverId: 'confined' }]);
    expect(warnings[0]?.message).toContain('install bubblewrap');
  });

  it('the probe runs once [sandbox.required]', async () => {
    const dir = tempDir();
    const file = join(dir, 'bwrap');
    writeFileSync(file, `#!/bin/sh\necho x >> ${join(dir, 'tries')}\nexit 1\n`);
    chmodSync(file, 0o755);
    const { pool } = openPool({ sandboxCommand: file });
    await call(pool, { ...confined(), server_id: 'a' }, 'place');
    const tries = readFileSync(join(dir, 'tries'), 'utf8');
    await call(pool, { ...confined(), server_id: 'b' }, 'place');
    expect(readFileSync(join(dir, 'tries'), 'utf8')).toBe(tries);
  });
});
