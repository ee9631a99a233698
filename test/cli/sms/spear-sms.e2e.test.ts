import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { nextMessage, OriginalClient } from '../../registry/original-client.ts';
import { onStop, stopAll, temporaryDirectory } from '../../registry/running-sms.ts';
import { spawnSms } from '../../registry/sms-process.ts';
import { builtCommand } from '../../support/built-command.ts';
import { selfSigned } from '../../support/certificates.ts';

// Every command is a process of its own, and a busy machine starts those slowly.
vi.setConfig({ testTimeout: 120_000 });

afterEach(stopAll);

const entry = builtCommand('spear-sms');

interface Finished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `spear-sms` to its end. */
async function run(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Finished> {
  const options = { env, timeout: 60_000 };
  return promisify(execFile)(process.execPath, [entry, ...args], options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  );
}

const loopback = ['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0'];
const toml = (id: string) =>
  `server_id = "${id}"\ntransport = "stdio"\nallowed_tools = ["*"]\n[stdio]\ncommand = "x"\n`;

it('says what it can do, and its version', async () => {
  const help = await run(['--help']);
  expect(help.code).toBe(0);
  for (const word of ['--mcp-registry-dir', 'SMS_GRPC', 'backup FILE', 'Exit code', '--insecure-no-auth']) {
    expect(help.stdout).toContain(word);
  }
  expect((await run(['--version'])).stdout).toMatch(/^spear-sms \d+\.\d+\.\d+\n$/);
});

it('keeps its data and tokens in the state directory of the user, for the user alone [sms.auth.token_files]', async () => {
  const state = temporaryDirectory();
  const sms = await spawnSms([], { XDG_STATE_HOME: state, SMS_GRPC: '127.0.0.1:0', SMS_HTTP: '127.0.0.1:0' });
  const files = join(state, 'spear', 'sms');
  for (const name of ['registry.db', 'admin.token', 'node.token', 'endpoint.json']) {
    expect(statSync(join(files, name)).mode & 0o777).toBe(0o600);
  }
  expect(statSync(files).mode & 0o777).toBe(0o700);
  expect(JSON.parse(readFileSync(join(files, 'endpoint.json'), 'utf8'))).toMatchObject({
    grpc: `http://${sms.grpc}`,
    http: sms.http,
  });
  const token = readFileSync(join(files, 'admin.token'), 'utf8').trim();
  expect(sms.stderr()).toContain(join(files, 'admin.token'));
  expect(await sms.end('SIGTERM')).toBe(0);
  expect(sms.stderr()).not.toContain(token);
  expect(existsSync(join(files, 'endpoint.json'))).toBe(false);
});

it('prints one line when it is ready, with the ports that it got', async () => {
  const sms = await spawnSms([...loopback, '--data', `${temporaryDirectory()}/r.db`]);
  expect(sms.grpc).toMatch(/^127\.0\.0\.1:[1-9]\d*$/);
  expect(sms.http).toMatch(/^http:\/\/127\.0\.0\.1:[1-9]\d*$/);
  expect((await fetch(`${sms.http}/readyz`)).status).toBe(200);
});

describe('signals', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)('%s ends it with 0, watches and all', async (signal) => {
    const directory = temporaryDirectory();
    const sms = await spawnSms([...loopback, '--data', `${directory}/r.db`]);
    const token = readFileSync(`${directory}/node.token`, 'utf8').trim();
    const stream = new OriginalClient(sms.grpc, token).stream('WatchMcpServers');
    await new Promise((resolve) => stream.once('metadata', resolve));
    const ended = nextMessage(stream).catch((error: { details: string }) => error.details);
    expect(await sms.end(signal)).toBe(0);
    expect(await ended).toContain('shutting down');
  });

  it('ends in time although a client never finishes its request', async () => {
    const directory = temporaryDirectory();
    writeFileSync(`${directory}/sms.toml`, '[limits]\nshutdown_ms = 200\n');
    const sms = await spawnSms([...loopback, '--data', `${directory}/r.db`, '--config', `${directory}/sms.toml`]);
    const { connect } = await import('node:net');
    const socket = connect(Number(new URL(sms.http).port), '127.0.0.1');
    socket.on('error', () => {});
    onStop(() => void socket.destroy());
    await new Promise<void>((resolve) => {
      socket.write('GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nPUT / HTTP/1.1\r\n');
      socket.once('data', () => resolve());
    });
    expect(await sms.end('SIGTERM')).toBe(0);
  });

  it('SIGHUP reads the directory again', async () => {
    const directory = temporaryDirectory();
    mkdirSync(`${directory}/mcp.d`);
    const sms = await spawnSms([...loopback, '--data', `${directory}/r.db`, '--mcp-dir', `${directory}/mcp.d`]);
    const token = readFileSync(`${directory}/node.token`, 'utf8').trim();
    const stream = new OriginalClient(sms.grpc, token).stream('WatchMcpServers');
    await new Promise((resolve) => stream.once('metadata', resolve));
    writeFileSync(`${directory}/mcp.d/a.toml`, toml('a'));
    sms.child.kill('SIGHUP');
    expect(await nextMessage(stream)).toMatchObject({ event: { upserts: ['a'] } });
  });
});

describe('the directory', () => {
  it('stops a strict start, with the file, line and field [cli.sms.exit_codes]', async () => {
    const directory = temporaryDirectory();
    writeFileSync(`${directory}/a.toml`, `${toml('a')}colour = "red"\n`);
    const args = [...loopback, '--data', `${directory}/data/r.db`, '--mcp-registry-dir', directory];
    const { code, stderr, stdout } = await run([...args, '--strict']);
    expect(code).toBe(3);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/a\.toml:6: stdio\.colour is not a field/);
  });

  it('is only looked at in a dry run, which makes no file', async () => {
    const directory = temporaryDirectory();
    writeFileSync(`${directory}/a.toml`, toml('a'));
    writeFileSync(`${directory}/b.toml`, 'nonsense');
    const { code, stdout, stderr } = await run(['--dry-run', '--data', `${directory}/data/r.db`], {
      SMS_MCP_DIR: directory,
    });
    expect(code).toBe(0);
    expect(stdout).toBe('create a from a.toml\n1 changes, 0 unchanged\n');
    expect(stderr).toMatch(/b\.toml:1/);
    expect(existsSync(`${directory}/data`)).toBe(false);
  });
});

describe('what it refuses', () => {
  it('bad usage and config: 2 [cli.sms.exit_codes]', async () => {
    for (const args of [['--grcp', 'x'], ['--grpc', 'here'], ['backup'], ['--dry-run']]) {
      expect(await run(args, { HOME: '/nowhere' })).toMatchObject({ code: 2, stdout: '' });
    }
  });

  it('to start where it cannot: 1 [cli.sms.exit_codes]', async () => {
    const directory = temporaryDirectory();
    const sms = await spawnSms([...loopback, '--data', `${directory}/r.db`]);
    const busy = await run([...loopback, '--data', `${directory}/r.db`]);
    expect(busy).toMatchObject({ code: 1, stderr: expect.stringContaining('in use by another process') });
    const taken = await run(['--grpc', sms.grpc, '--http', '127.0.0.1:0', '--data', `${directory}/other.db`]);
    expect(taken).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`cannot listen on ${sms.grpc}: the address is in use`),
    });
  });
});

it('copies its data through its socket, whoever vouches for its certificate [cli.sms.backup]', async () => {
  const directory = temporaryDirectory();
  const { cert, key } = selfSigned();
  writeFileSync(`${directory}/own.cert`, cert);
  writeFileSync(`${directory}/own.key`, key, { mode: 0o600 });
  const data = ['--data', `${directory}/r.db`];
  await spawnSms([...loopback, ...data, '--tls-cert', `${directory}/own.cert`, '--tls-key', `${directory}/own.key`]);
  expect(await run(['backup', `${directory}/copy.db`, ...data])).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('by the serving registry'),
  });
});

it('refuses a TLS key that others can read [cli.sms.exit_codes]', async () => {
  const directory = temporaryDirectory();
  const { cert, key } = selfSigned();
  writeFileSync(`${directory}/cert.pem`, cert);
  writeFileSync(`${directory}/key.pem`, key);
  chmodSync(`${directory}/key.pem`, 0o644);
  const tls = ['--tls-cert', `${directory}/cert.pem`, '--tls-key', `${directory}/key.pem`];
  expect(await run([...loopback, '--data', `${directory}/r.db`, ...tls])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`--tls-key: ${directory}/key.pem is accessible to other users (mode 644)`),
  });
});

it('starts on a full disk and serves what it has [store.no_room]', async () => {
  const directory = temporaryDirectory();
  const args = [...loopback, '--data', `${directory}/r.db`];
  mkdirSync(`${directory}/mcp.d`);
  writeFileSync(`${directory}/mcp.d/a.toml`, toml('a'));
  const first = await spawnSms([...args, '--mcp-dir', `${directory}/mcp.d`]);
  await first.end('SIGKILL');
  writeFileSync(`${directory}/mcp.d/b.toml`, toml('b'));
  // No file may be written any more, which is how a full disk looks to a process.
  const second = await spawnSms([...args, '--mcp-dir', `${directory}/mcp.d`], {}, 'ulimit -f 0');
  const ready = await fetch(`${second.http}/readyz`);
  expect([ready.status, await ready.json()]).toMatchObject([503, { status: 'read_only' }]);
  const authorization = `Bearer ${readFileSync(`${directory}/admin.token`, 'utf8').trim()}`;
  const list = await fetch(`${second.http}/api/v1/mcp/servers`, { headers: { authorization } });
  expect(await list.json()).toMatchObject({ servers: [{ server_id: 'a' }] });
  const revoked = await fetch(`${second.http}/admin/api/mcp/servers/a`, {
    method: 'DELETE',
    headers: { authorization },
  });
  expect(revoked.status).toBe(507);
  expect(await revoked.json()).toMatchObject({ detail: expect.stringContaining('the disk cannot be written') });
});

it('copies its data while it serves and when it does not, and takes a copy back as another registry [sms.backup] [cli.sms.backup]', async () => {
  const directory = temporaryDirectory();
  const data = ['--data', `${directory}/r.db`];
  mkdirSync(`${directory}/mcp.d`);
  writeFileSync(`${directory}/mcp.d/a.toml`, toml('a'));
  const args = [...loopback, ...data];
  const sms = await spawnSms([...args, '--mcp-dir', `${directory}/mcp.d`]);
  const epochOf = async (http: string) => {
    const token = readFileSync(`${directory}/node.token`, 'utf8').trim();
    const response = await fetch(`${http}/api/v1/mcp/servers`, { headers: { authorization: `Bearer ${token}` } });
    return (await response.json()) as { epoch: string; servers: unknown[] };
  };
  const before = await epochOf(sms.http);
  const online = await run(['backup', `${directory}/online.db`, ...data]);
  expect(online).toMatchObject({ code: 0, stderr: expect.stringContaining('by the serving registry') });
  expect(statSync(`${directory}/online.db`).mode & 0o777).toBe(0o600);
  expect(await run(['restore', `${directory}/online.db`, ...data])).toMatchObject({ code: 1 });
  await sms.end('SIGKILL');
  // The word it left of where it listens is no longer true.
  expect(await run(['backup', `${directory}/offline.db`, ...data])).toMatchObject({ code: 0 });
  for (const copy of ['online.db', 'offline.db']) {
    expect(await run(['restore', `${directory}/${copy}`, ...data])).toMatchObject({ code: 0 });
    const restored = await spawnSms(args);
    const after = await epochOf(restored.http);
    expect(after.servers).toEqual(before.servers);
    expect(after.epoch).not.toBe(before.epoch);
    await restored.end('SIGTERM');
  }
  expect(await run(['restore', `${directory}/mcp.d/a.toml`, ...data])).toMatchObject({ code: 1 });
  expect(await run(['backup', `${directory}/x.db`, '--data', `${directory}/none.db`])).toMatchObject({ code: 1 });
});
