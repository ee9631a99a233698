import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunRecord } from '../../src/server/records/run.ts';
import { stopAll } from '../registry/running-sms.ts';
import { type SmsProcess, spawnSms } from '../registry/sms-process.ts';
import { fixture } from '../registry/tasks/task-calls.ts';
import { builtCommand } from '../support/built-command.ts';
import { NodeLives, writeNodeFolder } from '../torture/node/node-life.ts';

// A registry and a node, each a process of its own: tasks and people are those of the registry.

const folder = mkdtempSync(join(tmpdir(), 'spear-registry-node-'));
const data = join(folder, 'sms', 'registry.db');
const sockets = join(folder, 'sms', 'sockets');
const node = new NodeLives(folder, [], ['--sms', `unix:${join(sockets, 'grpc.sock')}`]);
const env = {
  PATH: process.env.PATH,
  HOME: folder,
  SPEAR_SMS: `unix:${join(sockets, 'http.sock')}`,
  SPEAR_NODE: `unix:${join(folder, 'data/sockets/http.sock')}`,
};
const runsOf = (task: string, namespace = 'default') => `/v1/namespaces/${namespace}/tasks/${task}/runs`;
const waiting = { prefer: 'wait=60' };
let sms: SmsProcess;

const startRegistry = () =>
  spawnSms(['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--data', data], {
    HOME: folder,
    PATH: process.env.PATH,
  });

const spear = (...args: string[]) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [builtCommand('spear'), ...args], {
    encoding: 'utf8',
    cwd: folder,
    env,
  });
  return { status, stdout, stderr };
};

/** The text of a new token. */
function person(name: string, ...more: string[]): string {
  const made = spear('tokens', 'create', name, ...more);
  expect(made).toMatchObject({ status: 0 });
  return made.stdout.trim();
}

/** Asks until the answer is of this status: word of a change takes a moment to come. */
async function untilStatus(status: number, ask: () => Promise<{ status: number; text: string }>) {
  for (;;) {
    const answer = await ask();
    if (answer.status === status) return answer;
    await delay(20);
  }
}

function writeTask(name: string, ...more: string[]): string {
  const file = join(folder, `${name}.toml`);
  writeFileSync(
    file,
    [`name = "${name}"`, `wasm = ${JSON.stringify(fixture('c/hello.wasm'))}`, ...more, ''].join('\n'),
  );
  return file;
}

beforeAll(async () => {
  writeNodeFolder(folder);
  mkdirSync(join(folder, 'sms'), { mode: 0o700 });
  sms = await startRegistry();
  expect(spear('tasks', 'apply', writeTask('hello')).stdout).toBe('default/hello@1 created\n');
  await node.start();
}, 60_000);

afterAll(async () => {
  await node.kill();
  await stopAll();
  rmSync(folder, { recursive: true, force: true });
});

describe('a node with a registry', () => {
  it('runs its tasks, with modules that it verified and keeps [node.sms-tasks]', async () => {
    expect(await node.ask('POST', runsOf('hello'), { headers: waiting })).toMatchObject({ text: 'hello from C\n' });
    expect(readdirSync(join(folder, 'data', 'blobs'))).toHaveLength(1);
    expect(spear('tasks', 'ls').stdout).toMatch(/default\/hello +1\/1/);
    expect(spear('tasks', 'ls', '--node', env.SPEAR_NODE).stdout).toMatch(/default\/hello +1\/1/);
    const refused = spear('tasks', 'apply', '--node', env.SPEAR_NODE, join(folder, 'hello.toml'));
    expect(refused.status).toBe(1);
    expect(refused.stderr).toContain('loads its tasks from the registry at unix:');
    expect(spear('tasks', 'ls', '--sms', 'x', '--node', 'y').stderr).toContain('cannot be combined');
  });

  it('gives a changed task to runs that are submitted afterwards; a run keeps its revision [node.sms-tasks]', async () => {
    const run = async () => {
      const { headers } = await node.ask('POST', runsOf('hello'), { headers: waiting });
      const { text } = await node.ask('GET', `/v1/namespaces/default/runs/${headers.get('spear-run')}`);
      return JSON.parse(text) as RunRecord;
    };
    const first = await run();
    expect(spear('tasks', 'apply', writeTask('hello', 'args = ["2"]')).stdout).toBe('default/hello@2 updated\n');
    let second = await run();
    while (second.revision === 1) second = await run();
    expect(second.revision).toBe(2);
    const again = await node.ask('POST', `/v1/namespaces/default/runs/${first.id}/retry`);
    expect(JSON.parse(again.text)).toMatchObject({ revision: 1 });
    expect(spear('tasks', 'promote', 'hello@1').stdout).toBe('default/hello@1 is live\n');
    while ((await run()).revision === 2);
    expect(spear('tasks', 'apply', writeTask('gone')).status).toBe(0);
    await untilStatus(202, () => node.ask('POST', runsOf('gone')));
    expect(spear('tasks', 'rm', 'gone').stdout).toBe('default/gone removed\n');
    await untilStatus(404, () => node.ask('POST', runsOf('gone')));
  });

  it('does not offer what it cannot run: another pool, a model that it does not have', async () => {
    expect(spear('tasks', 'apply', writeTask('gpu', 'pool = "gpu"')).status).toBe(0);
    expect(spear('tasks', 'apply', writeTask('odd', 'backend = "elsewhere"')).status).toBe(0);
    expect(spear('tasks', 'apply', writeTask('plain')).status).toBe(0);
    await untilStatus(202, () => node.ask('POST', runsOf('plain')));
    expect((await node.ask('POST', runsOf('gpu'))).status).toBe(404);
    expect((await node.ask('POST', runsOf('odd'))).status).toBe(404);
    expect(node.log).toContain('\\"elsewhere\\" is not configured');
  });

  it('knows the people of the registry: roles, namespaces, the right to journals, their names [node.identity]', async () => {
    const alice = person('alice', '--role', 'submitter', '--namespace', 'default');
    const viewer = person('vera', '--role', 'viewer');
    const auditor = person('otto', '--role', 'viewer', '--journals');
    const other = person('bert', '--role', 'submitter', '--namespace', 'team-b');
    const answer = await node.ask('POST', runsOf('hello'), { token: alice, headers: waiting });
    expect(answer).toMatchObject({ status: 200, text: 'hello from C\n' });
    const path = `/v1/namespaces/default/runs/${answer.headers.get('spear-run')}`;
    const read = (token: string, what = '') => node.ask('GET', `${path}${what}`, { token });
    expect(JSON.parse((await read(viewer)).text)).toMatchObject({ submitted_by: 'alice', status: 'succeeded' });
    expect((await node.ask('POST', runsOf('hello'), { token: viewer })).status).toBe(403);
    expect((await read(other)).status).toBe(403);
    expect((await read(alice, '/journal')).status).toBe(403);
    expect((await read(auditor, '/journal')).text).toContain('"t":"header"');
    // The token of a node is not valid here, and neither is an invented one.
    const nodeToken = readFileSync(join(folder, 'sms', 'node.token'), 'utf8').trim();
    expect((await read(nodeToken)).status).toBe(403);
    expect((await read(`spr_${'0'.repeat(64)}`)).status).toBe(401);
    // The registry's admin is the node's, and its own admin is still there.
    const admin = readFileSync(join(folder, 'sms', 'admin.token'), 'utf8').trim();
    expect((await read(admin, '/journal')).status).toBe(200);
    const own = await node.ask('POST', runsOf('hello'));
    expect(JSON.parse(own.text)).toMatchObject({ submitted_by: 'local:admin' });
    expect(readdirSync(join(folder, 'data'))).not.toContain('submitter.token');
  });

  it('refuses a revoked token within seconds, and ends what is open by it [node.identity]', async () => {
    const spin = join(folder, 'spin.toml');
    writeFileSync(join(folder, 'spin.wasm'), SPIN);
    writeFileSync(spin, 'name = "spin"\nwasm = "spin.wasm"\n');
    expect(spear('tasks', 'apply', spin).status).toBe(0);
    const token = person('carl', '--role', 'submitter');
    const { text } = await untilStatus(202, () => node.ask('POST', runsOf('spin'), { token }));
    const path = `/v1/namespaces/default/runs/${(JSON.parse(text) as RunRecord).id}`;
    const events = await fetch(`${node.url}${path}/events`, { headers: { authorization: `Bearer ${token}` } });
    expect(events.status).toBe(200);
    const ended = events.text().catch(() => 'ended');
    expect(spear('tokens', 'revoke', 'carl').status).toBe(0);
    await untilStatus(401, () => node.ask('GET', path, { token }));
    await ended;
    expect((await node.ask('POST', `${path}/cancel`)).status).toBe(202);
  });

  it('starts and runs while the registry is unreachable, and rejects callers that it cannot look up [node.sms-away]', async () => {
    const token = person('dora', '--role', 'submitter');
    expect((await node.ask('POST', runsOf('hello'), { token, headers: waiting })).status).toBe(200);
    await sms.end('SIGKILL');
    await untilStatus(503, () => node.ask('GET', '/v1/namespaces/default/runs', { token }));
    expect((await node.ask('POST', runsOf('hello'), { headers: waiting })).status).toBe(200);
    expect(await node.stop()).toBe(0);
    await node.start();
    expect((await node.ask('POST', runsOf('hello'), { headers: waiting })).text).toBe('hello from C\n');
    expect((await node.ask('POST', runsOf('hello'), { token })).status).toBe(503);
    sms = await startRegistry();
    await untilStatus(202, () => node.ask('POST', runsOf('hello'), { token }));
    expect(spear('tasks', 'apply', writeTask('late')).status).toBe(0);
    await untilStatus(202, () => node.ask('POST', runsOf('late'), { token }));
  }, 60_000);
});

/** A guest that computes until it is ended. */
const SPIN = Uint8Array.from([
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 5, 3, 1, 0, 1],
  ...[7, 19, 2, 6, 0x6d, 0x65, 0x6d, 0x6f, 0x72, 0x79, 2, 0, 6, 0x5f, 0x73, 0x74, 0x61, 0x72, 0x74, 0, 0],
  ...[10, 9, 1, 7, 0, 3, 0x40, 0x0c, 0, 0x0b, 0x0b],
]);
