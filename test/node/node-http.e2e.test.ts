import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { RunRecord } from '../../src/server/records/run.ts';
import { runInterface, SPIN } from '../server/routes/run-interface.ts';
import { frame, frameData } from '../support/stream-client.ts';
import { NodeLives, writeNodeFolder } from '../torture/node/node-life.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-node-http-'));
const fixture = (path: string) => fileURLToPath(new URL(`../../fixtures/${path}`, import.meta.url));
const node = new NodeLives(folder);
const hello = '/v1/namespaces/default/tasks/hello/runs';
const runs = '/v1/namespaces/default/runs';
const parsed = (text: string) => JSON.parse(text) as RunRecord;

beforeAll(async () => {
  writeNodeFolder(folder, {
    node: 'max_queued = 3\nslots = 4\nsubmitters = [{ name = "bob", namespace = "team-b" }]\ndrain_ms = 200',
  });
  writeFileSync(join(folder, 'tasks.d', 'spin.wasm'), SPIN);
  writeFileSync(join(folder, 'tasks.d', 'spin.toml'), 'name = "spin"\nwasm = "spin.wasm"\nconcurrency = 1\n');
  const echo = `name = "echo"\nwasm = ${JSON.stringify(fixture('c/echo.wasm'))}\n`;
  writeFileSync(join(folder, 'tasks.d', 'echo.toml'), echo);
  writeFileSync(join(folder, 'tasks.d', 'wrong.toml'), 'name = "wrong"\nwasm = "nowhere.wasm"\n');
  await node.start();
}, 60_000);

afterAll(async () => {
  await node.kill();
  rmSync(folder, { recursive: true, force: true });
});

runInterface('a run over HTTP', () => ({
  ask: (method, path, options) => node.ask(method, path, options),
  submitter: () => node.token('submitter'),
  submitterName: 'submitter',
}));

describe('a line of runs', () => {
  it('has an end: 429 says when to come back [node.full]', async () => {
    const spin = '/v1/namespaces/default/tasks/spin/runs';
    const answers = [];
    for (let n = 0; n < 5; n++) {
      answers.push(await node.ask('POST', spin, { body: String(n) }));
      // The first one leaves the line for a slot.
      if (n === 0) await status(parsed(answers[0]?.text ?? '').id, 'running');
    }
    expect(answers.map(({ status: code }) => code)).toEqual([202, 202, 202, 202, 429]);
    expect(answers[4]?.headers.get('retry-after')).toBe('1');
    for (const { text } of answers.slice(0, 4)) await node.ask('POST', `${runs}/${parsed(text).id}/cancel`);
    for (const { text } of answers.slice(0, 4)) await status(parsed(text).id, 'cancelled');
  });
});

describe('user streams of a run', () => {
  it('reach a client over a WebSocket, with a token that is good for once [node.streams]', async () => {
    const echo = '/v1/namespaces/default/tasks/echo/runs';
    const { id } = parsed((await node.ask('POST', echo, { body: '' })).text);
    await status(id, 'running');
    const bob = node.token('tokens/bob');
    expect((await node.ask('POST', `${runs}/${id}/streams/session`, { token: bob })).status).toBe(403);
    let session = { status: 409, text: '' };
    // It runs a moment before its streams are there.
    while (session.status === 409) session = await node.ask('POST', `${runs}/${id}/streams/session`);
    const { path } = JSON.parse(session.text) as { path: string };
    const open = (where: string, protocol = 'spear.stream.v1', headers = {}) =>
      new WebSocket(`${node.url.replace('http', 'ws')}${where}`, protocol, { headers });
    const refused = async (socket: WebSocket) => {
      const [error] = await once(socket, 'error');
      return String(error);
    };
    expect(await refused(open(path.replace(/token=.*/, 'token=wrong')))).toContain('401');
    const bare = path.replace(/\?.*/, '');
    expect(await refused(open(bare, 'other', { authorization: `Bearer ${node.token()}` }))).toContain('400');
    expect(await refused(open(bare, undefined, { authorization: `Bearer ${bob}` }))).toContain('401');
    const client = open(path);
    await once(client, 'open');
    expect(await refused(open(path))).toContain('401');
    client.send(frame(1, 'hello'));
    const [answer] = (await once(client, 'message')) as [Buffer];
    expect(frameData(new Uint8Array(answer))).toBe('HELLO');
    client.close();
    const ended = await status(id, 'succeeded');
    expect(ended.exit).toMatchObject({ code: 0 });
    expect((await node.ask('GET', `${runs}/${id}/result`)).text).toBe('1 frames\n');
    expect((await node.ask('POST', `${runs}/${id}/streams/session`)).status).toBe(409);
  });
});

describe('who may do what', () => {
  it('needs a token, of the namespace that is named, and the admin’s for tasks [node.access]', async () => {
    const bob = node.token('tokens/bob');
    expect((await node.ask('GET', runs, { token: 'x'.repeat(64) })).status).toBe(401);
    expect((await node.ask('GET', runs, { token: bob })).status).toBe(403);
    expect((await node.ask('POST', hello, { body: '', token: bob })).status).toBe(403);
    expect((await node.ask('GET', '/v1/namespaces/team-b/runs', { token: bob })).status).toBe(200);
    expect((await node.ask('POST', '/v1/namespaces/team-b/tasks/hello/runs', { body: '', token: bob })).status).toBe(
      404,
    );
    expect(JSON.parse((await node.ask('GET', '/admin/api/tasks', { token: bob })).text)).toEqual({ tasks: [] });
    const put = await node.ask('PUT', '/admin/api/tasks/default/x', { body: '{}', token: node.token('submitter') });
    expect(put.status).toBe(403);
    for (const name of ['admin', 'submitter', 'tokens/bob']) {
      expect(statSync(join(folder, 'data', `${name}.token`)).mode & 0o777).toBe(0o600);
    }
  });

  it('answers what is wrong with a request, and never with a stack', async () => {
    expect((await node.ask('GET', '/v1/nothing')).status).toBe(404);
    expect((await node.ask('PUT', runs, { body: '' })).status).toBe(405);
    const page = await fetch(`${node.url}/healthz`, { headers: { origin: 'https://evil.example' } });
    expect(page.status).toBe(403);
  });

  it('describes itself, and says how it is', async () => {
    const document = JSON.parse((await node.ask('GET', '/openapi.json')).text);
    expect(document).toMatchObject({ openapi: '3.1.0', paths: { '/v1/namespaces/{namespace}/runs': { get: {} } } });
    const page = document.paths['/v1/namespaces/{namespace}/runs'].get.responses['200'];
    expect(page.content['application/json'].schema.properties).toHaveProperty('cursor');
    expect((await node.ask('GET', '/healthz')).status).toBe(200);
    expect((await node.ask('GET', '/readyz')).status).toBe(200);
    const metrics = (await node.ask('GET', '/metrics')).text;
    expect(metrics).toMatch(/spearlet_runs\{status="succeeded"\} [1-9]/);
    expect(metrics).toMatch(/spearlet_slots\{state="free"\} [1-4]/);
    expect(metrics).toMatch(/spear_guests_started_total [1-9]/);
  });
});

describe('tasks of a node', () => {
  it('have revisions that never change; live is moved, and what is wrong changes nothing [node.tasks]', async () => {
    const file = join(folder, 'tasks.d', 'hello.toml');
    const before = readFileSync(file, 'utf8');
    const live = async () => JSON.parse((await node.ask('GET', '/admin/api/tasks/default/hello')).text);
    expect(await live()).toMatchObject({ live: 1, revisions: 1 });
    writeFileSync(file, `${before}args = ["a"]\n`);
    node.signal('SIGHUP');
    await until(async () => (await live()).live === 2);
    expect((await node.ask('POST', '/admin/api/tasks/default/hello/promote?revision=1')).status).toBe(200);
    const run = parsed((await node.ask('POST', hello, { body: '' })).text);
    expect(run.revision).toBe(1);
    writeFileSync(join(folder, 'tasks.d', 'spin.toml'), 'name = "spin"\nwasm = "spin.wasm"\nwat = 1\n');
    node.signal('SIGHUP');
    await until(() => node.log.includes('unknown key \\"wat\\"'));
    // What the directory says is what it said before: the promoted one stays.
    expect((await live()).live).toBe(1);
    expect((await node.ask('GET', '/admin/api/tasks/default/spin')).status).toBe(200);
    expect((await node.ask('POST', '/admin/api/tasks/default/hello/promote?revision=9')).status).toBe(404);
  });

  it('are applied with their module by its digest, and refused with the reason', async () => {
    const put = (name: string, body: object) =>
      node.ask('PUT', `/admin/api/tasks/default/${name}`, { body: JSON.stringify(body) });
    const missing = await put('up', { name: 'up', wasm: `sha256:${'0'.repeat(64)}` });
    expect(missing).toMatchObject({ status: 400 });
    expect(missing.text).toContain('is not stored');
    expect((await put('up', { name: 'up', wasm: 'x', extra: 1 })).text).toContain('unknown key');
    const bytes = readFileSync(fixture('c/hello.wasm'));
    const digest = Buffer.from(await crypto.subtle.digest('SHA-256', bytes)).toString('hex');
    const blob = await fetch(`${node.url}/admin/api/blobs/${digest}`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${node.token()}` },
      body: bytes,
    });
    expect(blob.status).toBe(201);
    expect(JSON.parse((await put('up', { name: 'up', wasm: `sha256:${digest}` })).text)).toMatchObject({
      outcome: 'created',
      live: 1,
    });
    const elsewhere = await put('up', { name: 'up', wasm: `sha256:${digest}`, pool: 'gpu' });
    expect(elsewhere.text).toContain('this node serves');
    const secret = await put('up', { name: 'up', wasm: `sha256:${digest}`, env: { KEY: 'hidden-value' } });
    expect(secret.status).toBe(200);
    const shown = (await node.ask('GET', '/admin/api/tasks/default/up')).text;
    expect(shown).toContain('"KEY":"********"');
    expect(shown).not.toContain('hidden-value');
    expect((await put('other', { name: 'up', wasm: `sha256:${digest}` })).status).toBe(400);
    const text = Buffer.from('not wasm');
    const bad = Buffer.from(await crypto.subtle.digest('SHA-256', text)).toString('hex');
    const headers = { authorization: `Bearer ${node.token()}` };
    await fetch(`${node.url}/admin/api/blobs/${bad}`, { method: 'PUT', headers, body: text });
    const refused = await put('up', { name: 'up', wasm: `sha256:${bad}` });
    expect(refused.text).toContain('not a WebAssembly binary');
    expect(JSON.parse((await node.ask('GET', '/admin/api/tasks/default/up')).text)).toMatchObject({ revisions: 2 });
    expect((await node.ask('DELETE', '/admin/api/tasks/default/up')).status).toBe(200);
    expect((await node.ask('POST', '/v1/namespaces/default/tasks/up/runs', { body: '' })).status).toBe(404);
  });
});

describe('the end of a node', () => {
  it('returns running runs to the queue; the next start resumes them [node.drain]', async () => {
    const spin = parsed((await node.ask('POST', '/v1/namespaces/default/tasks/spin/runs', { body: '' })).text);
    await status(spin.id, 'running');
    expect(await node.stop()).toBe(0);
    expect(existsSync(join(folder, 'data', 'endpoint.json'))).toBe(false);
    await node.start();
    const again = await status(spin.id, 'running');
    expect(again.attempts).toBe(1);
    await node.ask('POST', `${runs}/${spin.id}/cancel`);
    await status(spin.id, 'cancelled');
  });
});

async function until(is: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await is())) await delay(20);
}

async function status(id: string, wanted: string): Promise<RunRecord> {
  for (;;) {
    const run = parsed((await node.ask('GET', `${runs}/${id}`)).text);
    if (run.status === wanted) return run;
    await delay(20);
  }
}
