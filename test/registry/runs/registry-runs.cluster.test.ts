import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunRecord } from '../../../src/server/records/run.ts';
import { runInterface, SPIN } from '../../server/routes/run-interface.ts';
import { builtCommand } from '../../support/built-command.ts';
import { useNats } from '../../support/engines/use-engine.ts';
import { NodeLives, writeNodeFolder } from '../../torture/node/node-life.ts';
import { stopAll } from '../running-sms.ts';
import { type SmsProcess, spawnSms } from '../sms-process.ts';

// Two registries and two nodes that share one queue, each a process of its own.

const root = mkdtempSync(join(tmpdir(), 'spear-registry-runs-'));
const nats = useNats({ members: 1 });
const data = join(root, 'sms', 'registry.db');
const sockets = join(root, 'sms', 'sockets');
const folders = ['a', 'b'].map((name) => join(root, name)) as [string, string];
const fixture = (path: string) => fileURLToPath(new URL(`../../../fixtures/${path}`, import.meta.url));
const hello = '/v1/namespaces/default/tasks/hello/runs';
const runs = '/v1/namespaces/default/runs';
const waiting = { prefer: 'wait=60' };
const parsed = (text: string) => JSON.parse(text) as RunRecord;
let sms: SmsProcess;
let nodes: readonly [NodeLives, NodeLives];
let submitter = '';

const queue = () => `nats://${nats().members[0]?.address}`;
const startRegistry = (...args: string[]) =>
  spawnSms(
    ['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--data', data, '--task-dir', join(root, 'tasks.d'), ...args],
    { HOME: root, PATH: process.env.PATH },
  );

const env = (more: NodeJS.ProcessEnv = {}) => ({
  PATH: process.env.PATH,
  HOME: root,
  SPEAR_SMS: `unix:${join(sockets, 'http.sock')}`,
  ...more,
});

const spearAs = (more: NodeJS.ProcessEnv, ...args: string[]) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [builtCommand('spear'), ...args], {
    encoding: 'utf8',
    timeout: 60_000,
    cwd: root,
    env: env(more),
  });
  return { status, stdout, stderr };
};
const spear = (...args: string[]) => spearAs({}, ...args);

async function ask(
  method: string,
  path: string,
  { body, token, headers = {} }: { body?: string; token?: string; headers?: Record<string, string> } = {},
) {
  const authorization = `Bearer ${token ?? readFileSync(join(root, 'sms', 'admin.token'), 'utf8').trim()}`;
  const answer = await fetch(`${sms.http}${path}`, {
    method,
    headers: { authorization, ...headers },
    ...(body === undefined ? {} : { body }),
  });
  return { status: answer.status, text: await answer.text(), headers: answer.headers };
}

beforeAll(async () => {
  mkdirSync(join(root, 'sms'), { mode: 0o700 });
  for (const [at, folder] of folders.entries()) {
    const node = `name = "node-${at}"\nlease_ms = 2000\ndrain_ms = 0`;
    writeNodeFolder(folder, { node });
  }
  writeNodeFolder(root);
  writeFileSync(join(root, 'tasks.d', 'spin.wasm'), SPIN);
  writeFileSync(join(root, 'tasks.d', 'spin.toml'), 'name = "spin"\nwasm = "spin.wasm"\n');
  const echo = `name = "echo"\nwasm = ${JSON.stringify(fixture('c/echo.wasm'))}\n`;
  writeFileSync(join(root, 'tasks.d', 'echo.toml'), echo);
  writeFileSync(join(root, 'tasks.d', 'nobody.toml'), echo.replace('"echo"', '"nobody"').concat('pool = "nobody"\n'));
  sms = await startRegistry('--queue', queue(), '--mcp-registry-dir', join(root, 'mcp.d'));
  const registry = ['--sms', `unix:${join(sockets, 'grpc.sock')}`];
  nodes = folders.map((folder) => new NodeLives(folder, ['--queue', queue()], registry)) as [NodeLives, NodeLives];
  await Promise.all(nodes.map((node) => node.start()));
  const made = spear('tokens', 'create', 'sue', '--role', 'submitter', '--namespace', 'default');
  expect(made).toMatchObject({ status: 0 });
  submitter = made.stdout.trim();
}, 90_000);

afterAll(async () => {
  await Promise.all((nodes ?? []).map((node) => node.kill()));
  await stopAll();
  rmSync(root, { recursive: true, force: true });
});

runInterface('a run that a registry takes [cluster.registry]', () => ({
  ask,
  submitter: () => submitter,
  submitterName: 'sue',
}));

describe('a registry with a queue', () => {
  it('has its runs run by any node that follows it, and the same run has the same key there [cluster.registry]', async () => {
    const many = await Promise.all(Array.from({ length: 40 }, () => ask('POST', hello, { headers: waiting })));
    expect(new Set(many.map(({ status }) => status))).toEqual(new Set([200]));
    const found = await ask('GET', `${runs}?limit=500&task=hello&status=succeeded`);
    const { runs: listed } = JSON.parse(found.text) as { runs: RunRecord[] };
    expect(new Set(listed.map(({ node }) => node))).toEqual(new Set(['node-0', 'node-1']));
    const headers = { 'idempotency-key': 'both' };
    const here = parsed((await ask('POST', hello, { body: 'x', headers, token: submitter })).text);
    for (const node of nodes) {
      const there = parsed((await node.ask('POST', hello, { body: 'x', headers, token: submitter })).text);
      expect(there.id).toBe(here.id);
      expect(parsed((await node.ask('GET', `${runs}/${here.id}`, { token: submitter })).text).submitted_by).toBe('sue');
    }
  });

  it('describes its runs and tasks, and counts them for Prometheus [cluster.registry]', async () => {
    const document = JSON.parse(await (await fetch(`${sms.http}/openapi.json`)).text()) as {
      info: unknown;
      paths: Record<string, Record<string, { security?: unknown }>>;
    };
    expect(document).toMatchObject({ openapi: '3.1.0', info: { title: 'spear-sms' } });
    const ofNode = JSON.parse((await nodes[0].ask('GET', '/openapi.json')).text) as typeof document;
    const isOfRuns = (path: string) => path.startsWith('/v1/namespaces/') && !path.includes('/streams/');
    for (const path of Object.keys(ofNode.paths).filter(isOfRuns)) {
      expect(document.paths[path], path).toEqual(ofNode.paths[path]);
    }
    const metrics = await (await fetch(`${sms.http}/metrics`)).text();
    const succeeded = Number(/^spear_sms_runs\{status="succeeded"\} (\d+)/m.exec(metrics)?.[1]);
    expect(succeeded).toBeGreaterThanOrEqual(40);
    expect(metrics).toMatch(/^spear_sms_run_queue_age_seconds \d/m);
  });

  it('ends the events of a run that never began, and tells how it ended [node.events]', async () => {
    const { id } = parsed((await ask('POST', '/v1/namespaces/default/tasks/nobody/runs', { body: 'x' })).text);
    const following = ask('GET', `${runs}/${id}/events`);
    const late = nodes[0].ask('GET', `${runs}/${id}/events`);
    expect((await ask('POST', `${runs}/${id}/cancel`)).status).toBe(202);
    for (const { text } of [await following, await late, await ask('GET', `${runs}/${id}/events`)]) {
      expect(text).toMatch(/^event: status\ndata: \{"status":"cancelled",/m);
      expect(text.match(/^event:/gm)).toHaveLength(1);
    }
  });

  it('takes the live revision of a task at once, whichever node has heard of it', async () => {
    const file = join(root, 'new.toml');
    const task = (args: string) => `name = "new"\nwasm = ${JSON.stringify(fixture('c/hello.wasm'))}\nargs = ${args}\n`;
    for (const [revision, args] of ['[]', '["1"]', '["2"]'].entries()) {
      writeFileSync(file, task(args));
      expect(spear('tasks', 'apply', file).status).toBe(0);
      const answer = await ask('POST', '/v1/namespaces/default/tasks/new/runs', { headers: waiting });
      expect(answer).toMatchObject({ status: 200, text: 'hello from C\n' });
      const run = parsed((await ask('GET', `${runs}/${answer.headers.get('spear-run')}`)).text);
      expect(run).toMatchObject({ revision: revision + 1, attempts: 1 });
    }
  });

  it('lets in by roles, namespaces and the right to read journals, and its trail has who did [cluster.registry]', async () => {
    const token = (name: string, ...more: string[]) => spear('tokens', 'create', name, ...more).stdout.trim();
    const viewer = token('vic', '--role', 'viewer');
    const other = token('bob', '--role', 'submitter', '--namespace', 'team-b');
    const reader = token('rae', '--role', 'viewer', '--journals');
    const made = await ask('POST', hello, { headers: waiting, token: submitter });
    const id = made.headers.get('spear-run') ?? '';
    expect((await ask('POST', hello, { token: viewer })).status).toBe(403);
    expect((await ask('POST', `${runs}/${id}/cancel`, { token: viewer })).status).toBe(403);
    expect((await ask('GET', `${runs}/${id}`, { token: viewer })).status).toBe(200);
    expect((await ask('GET', `${runs}/${id}`, { token: other })).status).toBe(403);
    expect((await ask('POST', '/v1/namespaces/team-b/tasks/hello/runs', { token: other })).status).toBe(404);
    expect((await ask('GET', `/v1/namespaces/team-b/runs/${id}`, { token: other })).status).toBe(404);
    expect((await ask('GET', `${runs}/${id}/journal`, { token: viewer })).status).toBe(403);
    expect((await ask('GET', `${runs}/${id}/journal`, { token: reader })).text).toContain('"t":"header"');
    const node = readFileSync(join(root, 'sms', 'node.token'), 'utf8').trim();
    expect((await ask('GET', runs, { token: node })).status).toBe(403);
    const trail = () => readFileSync(join(root, 'sms', 'audit.jsonl'), 'utf8');
    await expect.poll(trail).toContain(`"run":"${id}"`);
    expect(trail()).toMatch(/"event":"sms.served".*"actor":"sue".*tasks\/\{task\}\/runs/);
    expect(trail()).toMatch(/"event":"sms.refused".*"actor":"vic"/);
  });

  it('says where user streams are: on the node [cluster.registry]', async () => {
    const { id } = parsed((await ask('POST', '/v1/namespaces/default/tasks/echo/runs')).text);
    await expect.poll(async () => parsed((await ask('GET', `${runs}/${id}`)).text).status).toBe('running');
    const session = await ask('POST', `${runs}/${id}/streams/session`);
    expect(session.status).toBe(409);
    expect(session.text).toMatch(
      /streams-elsewhere.*served by the node that runs the run, not by the registry: connect to node-[01]/,
    );
    const upgrade = { connection: 'upgrade', upgrade: 'websocket' };
    const socket = await ask('GET', `/api/v1/executions/${id}/streams/ws`, { headers: upgrade }).catch(() =>
      ask('GET', `/api/v1/executions/${id}/streams/ws`),
    );
    expect(socket).toMatchObject({ status: 409 });
    expect((await ask('POST', `${runs}/${id}/cancel`)).status).toBe(202);
  });

  it('is asked by spear run and spear runs as a node is, and the next one where it is away [cluster.registry-cli]', async () => {
    const second = await spawnSms(
      [
        '--grpc',
        '127.0.0.1:0',
        '--http',
        '127.0.0.1:0',
        '--data',
        join(root, 'other', 'registry.db'),
        '--queue',
        queue(),
      ],
      { HOME: join(root, 'other'), PATH: process.env.PATH, SMS_ADMIN_TOKEN_FILE: join(root, 'sms', 'admin.token') },
    );
    writeFileSync(join(root, 'input'), 'x');
    const run = spear('run', 'hello', '--input', 'input', '--follow');
    expect(run).toMatchObject({ status: 0, stdout: 'hello from C\n' });
    expect(run.stderr).toContain('status | succeeded');
    const id = spear('run', 'default/hello', '--detach').stdout.trim();
    expect(spear('runs', 'logs', id).stderr).toContain('status | succeeded');
    expect(spear('runs', 'get', id).stdout).toContain('status: succeeded');
    expect(spear('runs', 'result', id).stdout).toBe('hello from C\n');
    expect(spear('runs', 'ls').stdout).toContain(id);
    expect(spear('runs', 'dead').stdout).not.toContain(id);
    writeFileSync(join(root, 'run.journal'), spear('runs', 'journal', id).stdout);
    expect(spear('journal', 'verify', 'run.journal').status).toBe(0);
    const again = spear('runs', 'retry', id).stdout.trim();
    expect(spear('runs', 'get', again).stdout).toContain(`retry_of: ${id}`);
    const named = ['--token-file', join(root, 'sms', 'admin.token'), '--sms', `http://127.0.0.1:1,${second.http}`];
    expect(spear('runs', 'get', id, ...named).stdout).toContain('status: succeeded');
    expect(spear('runs', 'retry', id, ...named)).toMatchObject({ status: 0 });
    expect(spear('runs', 'ls', '--sms', '127.0.0.1:1').status).toBe(3);
  });

  it('that has none says so, and commands go to the node instead unless a flag names it [cluster.registry-cli]', async () => {
    const folder = join(root, 'without');
    const without = await spawnSms(
      ['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--data', join(folder, 'sms', 'registry.db')],
      { HOME: folder, PATH: process.env.PATH },
    );
    const SPEAR_SMS = `unix:${join(folder, 'sms', 'sockets', 'http.sock')}`;
    const SPEAR_NODE = `unix:${join(folders[0], 'data/sockets/http.sock')}`;
    expect(spearAs({ SPEAR_SMS, SPEAR_NODE }, 'run', 'hello')).toMatchObject({ status: 0, stdout: 'hello from C\n' });
    const refused = spearAs({ SPEAR_NODE }, 'runs', 'ls', '--sms', SPEAR_SMS);
    expect(refused).toMatchObject({ status: 1 });
    expect(refused.stderr).toContain('was started without --queue; submit to a node');
    await without.end('SIGTERM');
  });

  it('serves without its queue, and takes runs when it is there again [cluster.registry-alone]', async () => {
    const [member] = nats().members;
    await member?.kill();
    const folder = join(root, 'alone');
    const args = ['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--data', join(folder, 'registry.db')];
    const alone = await spawnSms([...args, '--queue', queue()], { HOME: folder, PATH: process.env.PATH });
    const authorization = `Bearer ${readFileSync(join(folder, 'admin.token'), 'utf8').trim()}`;
    const list = () => fetch(`${alone.http}${runs}`, { headers: { authorization } });
    expect((await fetch(`${alone.http}/readyz`)).status).toBe(200);
    const away = await list();
    expect(away.status).toBe(503);
    expect(await away.text()).toMatch(/queue-unavailable.*the run queue is unreachable: no connection to NATS/);
    await member?.start();
    await expect.poll(async () => (await list()).status).toBe(200);
    const found = (await (await list()).json()) as { runs: unknown[] };
    expect(found.runs.length).toBeGreaterThan(0);
    expect(await alone.end('SIGTERM')).toBe(0);
  });

  it('does not start with what can never be: an address in clear, servers that are not as runs need them', async () => {
    const start = async (...more: string[]) => {
      const args = [builtCommand('spear-sms'), '--data', join(root, 'never', 'registry.db'), '--http', '127.0.0.1:0'];
      const child = spawn(process.execPath, [...args, '--grpc', '127.0.0.1:0', ...more], {
        env: { HOME: join(root, 'never'), PATH: process.env.PATH },
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      let stderr = '';
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        stderr += text;
      });
      const [code] = (await once(child, 'exit')) as [number | null];
      return { code, stderr };
    };
    const clear = await start('--queue', 'nats://nats.example:4222');
    expect(clear.code).toBe(2);
    expect(clear.stderr).toContain(
      '--queue: inputs, results and journals would be sent to nats.example:4222 unencrypted',
    );
    const tls = await start('--queue', queue().replace('nats:', 'tls:'));
    expect(tls.code).toBe(1);
    expect(tls.stderr).toContain('the server does not support TLS');
  });
});
