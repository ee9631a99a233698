import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { openRegistryTasks } from '../../../src/registry/tasks/open-tasks.ts';
import { noTrail } from '../../../src/server/audit/sms-trail.ts';
import { Caller } from '../../../src/server/identity/caller.ts';
import { openSqliteStore } from '../../../src/server/store/sqlite-store.ts';
import { createToken } from '../../server/identity/token-calls.ts';
import { OriginalClient } from '../original-client.ts';
import { startTestSms, stopAll, type TestSms, temporaryDirectory } from '../running-sms.ts';
import { applyTask, fixture, hello, helloSha256, putBlob } from './task-calls.ts';

afterEach(stopAll);

async function withHello(change: Parameters<typeof startTestSms>[0] = {}): Promise<TestSms> {
  const sms = await startTestSms(change);
  expect((await putBlob(sms, hello)).status).toBe(201);
  return sms;
}

describe('tasks of a registry', () => {
  it('have revisions that never change; live is moved there and back [sms.tasks]', async () => {
    const sms = await withHello();
    const path = '/admin/api/tasks/default/notes';
    expect((await applyTask(sms, { name: 'notes', env: { KEY: 'a secret' } })).body).toMatchObject({
      ...{ namespace: 'default', name: 'notes', live: 1, revisions: 1, outcome: 'created' },
      ...{ wasm: helloSha256, created_by: 'bootstrap-admin', from: null },
    });
    expect((await applyTask(sms, { name: 'notes', args: ['x'] })).body).toMatchObject({ live: 2, outcome: 'updated' });
    expect((await applyTask(sms, { name: 'notes', args: ['x'] })).body).toMatchObject({
      live: 2,
      outcome: 'unchanged',
    });
    expect((await sms.http('POST', `${path}/promote?revision=1`)).body).toMatchObject({ live: 1, revisions: 2 });
    // What was there before has its number.
    expect((await applyTask(sms, { name: 'notes', args: ['x'] })).body).toMatchObject({ live: 2, revisions: 2 });
    const { body, text } = await sms.http('GET', path);
    expect(body.all).toMatchObject([
      { revision: 2, args: ['x'], wasm: helloSha256 },
      { revision: 1, args: [], env: { KEY: '********' } },
    ]);
    expect(text).not.toContain('a secret');
    expect((await sms.http('POST', `${path}/promote?revision=3`)).body.detail).toContain('has no revision 3');
    expect((await sms.http('POST', `${path}/promote?revision=x`)).status).toBe(400);

    await sms.restart();
    expect((await sms.http('GET', path)).body).toMatchObject({ live: 2, revisions: 2 });
    expect((await sms.http('DELETE', path)).body).toEqual({ removed: 'notes' });
    expect((await sms.http('GET', path)).status).toBe(404);
    expect((await sms.http('DELETE', path)).status).toBe(404);
    expect((await sms.http('GET', '/admin/api/tasks')).body).toEqual({ tasks: [] });
    // Its numbers stay its own: nobody takes a new revision for an old one.
    expect((await applyTask(sms, { name: 'notes', args: ['y'] })).body).toMatchObject({ live: 3, outcome: 'created' });
    // Lines are written together, now and then and at the end.
    await sms.restart();
    const lines = readFileSync(String(sms.config.audit?.file), 'utf8').trim().split('\n');
    const told = lines.map((line) => JSON.parse(line)).filter(({ event }) => event === 'sms.task_changed');
    expect(told.map(({ action, task_id, actor }) => [action, task_id, actor])).toEqual([
      ...['create', 'update', 'update', 'update', 'delete', 'create'].map((action) => [
        ...[action, 'default/notes', 'bootstrap-admin'],
      ]),
    ]);
    expect(JSON.stringify(told)).not.toContain('a secret');
  });

  it('are refused with the reason, and nothing is changed [sms.tasks.refused]', async () => {
    const sms = await withHello();
    await applyTask(sms, { name: 'notes' });
    const detail = async (task: object, at?: string) => {
      const answer = await applyTask(sms, { name: 'notes', ...task }, at === undefined ? {} : { at });
      expect(answer.status).toBe(400);
      return String(answer.body.detail);
    };
    expect(await detail({ colour: 'red' })).toContain('colour');
    expect(await detail({ limits: { memory_byte: 1 } })).toContain('did you mean');
    expect(await detail({ config: { 'mcp.tool_allowlist': 7 } })).toContain('mcp.tool_allowlist');
    expect(await detail({ wasm: 'hello.wasm' })).toContain('expected sha256:');
    const other = 'f'.repeat(64);
    expect(await detail({ wasm: `sha256:${other}` })).toContain(`PUT /admin/api/blobs/${other} first`);
    expect(await detail({}, 'default/other')).toContain('the path names default/other');
    expect(await detail({ args: ['x'.repeat(300_000)] })).toContain('the limit is 262144');
    const notWasm = Buffer.from('not a module');
    const { text } = await putBlob(sms, notWasm);
    const { sha256 } = JSON.parse(text) as { sha256: string };
    expect(await detail({ wasm: `sha256:${sha256}` })).toContain('not a WebAssembly binary');
    const { status, body } = await sms.http('PUT', '/admin/api/tasks/default/notes', { text: '{' });
    expect([status, body.detail]).toEqual([400, 'the body is not valid JSON']);
    expect((await sms.http('GET', '/admin/api/tasks/default/notes')).body).toMatchObject({ live: 1, revisions: 1 });
  });

  it('name modules by their digest, which is verified, bounded, and kept while it is used [sms.blobs]', async () => {
    const sms = await withHello({ limit: { max_blob_bytes: 64 * 1024 } });
    expect(await putBlob(sms, hello, sms.adminToken, 'f'.repeat(64))).toMatchObject({ status: 400 });
    expect((await putBlob(sms, Buffer.alloc(128 * 1024))).status).toBe(507);
    const blobs = join(sms.config.files.blobs);
    expect(readdirSync(blobs)).toEqual([`${helloSha256}.wasm`]);
    // Only what a task has is anybody's to read.
    expect((await sms.http('GET', `/admin/api/blobs/${helloSha256}`)).status).toBe(404);
    await applyTask(sms, { name: 'notes' });
    const read = await fetch(`${sms.sms.http}/admin/api/blobs/${helloSha256}`, {
      headers: { authorization: `Bearer ${sms.adminToken}` },
    });
    expect(Buffer.from(await read.arrayBuffer()).equals(hello)).toBe(true);
    expect((await sms.http('GET', '/admin/api/blobs/..%2fregistry.db')).status).toBe(404);
  });

  it('belong to a namespace, and nobody names another [people.namespaces]', async () => {
    const sms = await withHello();
    const token = await createToken(sms, { name: 'op-a', roles: ['operator'], namespace: 'team-a' });
    const viewer = await createToken(sms, { name: 'view-b', roles: ['viewer'], namespace: 'team-b' });
    expect((await putBlob(sms, hello, token)).status).toBe(201);
    expect((await applyTask(sms, { name: 'notes', namespace: 'team-a' }, { token })).body).toMatchObject({
      ...{ namespace: 'team-a', created_by: 'op-a' },
    });
    const foreign = await applyTask(sms, { name: 'notes' }, { token });
    expect([foreign.status, foreign.body.type]).toEqual([403, 'urn:spear:problem:other-namespace']);
    await applyTask(sms, { name: 'mine', namespace: 'team-b' });
    const { tasks } = (await sms.http('GET', '/admin/api/tasks', { token: viewer })).body as { tasks: unknown[] };
    expect(tasks).toMatchObject([{ namespace: 'team-b', name: 'mine' }]);
    expect((await sms.http('GET', '/admin/api/tasks/team-a/notes', { token: viewer })).status).toBe(403);
    expect((await applyTask(sms, { name: 'x', namespace: 'team-b' }, { token: viewer })).status).toBe(403);
    // A node of one namespace follows its tasks, and reads their modules.
    const node = await createToken(sms, { name: 'node-a', roles: ['node'], namespace: 'team-a' });
    const port = sms.source(node).tasks(() => {});
    const { signal } = new AbortController();
    expect((await port.list(signal)).records.map(({ task_id }) => task_id)).toEqual(['team-a/notes']);
    expect(await port.revision('team-b/mine', 1, signal)).toBeNull();
    expect(Buffer.from(await port.module(helloSha256, 1_000_000, signal)).equals(hello)).toBe(true);
    await expect(port.module(helloSha256, 100, signal)).rejects.toThrow('more than 100 bytes');
  });

  it('are followed by nodes, apart from the other kinds [sms.kinds]', async () => {
    const sms = await withHello();
    await applyTask(sms, { name: 'notes' });
    const node = sms.source();
    const port = node.tasks(() => {});
    const stop = new AbortController();
    const { revision, records } = await port.list(stop.signal);
    expect(records).toMatchObject([{ task_id: 'default/notes', live: { revision: 1, wasm: helloSha256 } }]);
    const servers = (await node.list(stop.signal)).revision;
    const events = port.watch(revision, stop.signal)[Symbol.asyncIterator]();
    expect((await events.next()).value).toMatchObject({ heartbeat: true, revision });
    await applyTask(sms, { name: 'notes', args: ['2'] });
    const { value } = await events.next();
    expect(value).toMatchObject({ prevRevision: revision, upserts: [{ live: { revision: 2, args: ['2'] } }] });
    expect(await port.revision('default/notes', 1, stop.signal)).toMatchObject({ revision: 1, args: [] });
    expect(await port.revision('default/notes', 9, stop.signal)).toBeNull();
    expect((await node.list(stop.signal)).revision).toBe(servers);
    stop.abort();
  });
});

describe('sms.TaskService', () => {
  it('speaks to clients with the original numbers [sms.tasks.grpc]', async () => {
    const sms = await withHello();
    const operator = new OriginalClient(sms.sms.grpc, sms.adminToken, 'tasks');
    const node = new OriginalClient(sms.sms.grpc, sms.nodeToken, 'tasks');
    const executable = { type: 'EXECUTABLE_TYPE_WASM', uri: `sha256:${helloSha256}`, args: ['a'], env: { LANG: 'C' } };
    const given = { name: 'notes', description: 'Notes', version: '7', executable, config: { 'mcp.enabled': 'false' } };
    expect(await operator.call('RegisterTask', given)).toMatchObject({
      ...{ success: true, task_id: 'default/notes', message: 'revision 1 created' },
      task: { task_id: 'default/notes', status: 'TASK_STATUS_ACTIVE', version: '1', description: 'Notes' },
    });
    // What they cannot say stays as it is.
    await applyTask(sms, { name: 'notes', pool: 'gpu', budgets: { tokens_per_run: 5 } });
    await operator.call('RegisterTask', given);
    expect((await sms.http('GET', '/admin/api/tasks/default/notes')).body.all).toMatchObject([
      { revision: 3, pool: 'gpu', budgets: { tokens_per_run: 5 }, args: ['a'], config: { 'mcp.enabled': 'false' } },
      {},
      {},
    ]);
    expect(await node.call('ListTasks')).toMatchObject({
      total_count: 1,
      tasks: [
        {
          ...{ task_id: 'default/notes', name: 'notes', version: '3', config: { 'mcp.enabled': 'false' } },
          metadata: { namespace: 'default', pool: 'gpu', created_by: 'bootstrap-admin' },
          executable: { ...executable, checksum_sha256: helloSha256 },
        },
      ],
    });
    expect(await node.call('ListTasks', { offset: 1 })).toMatchObject({ total_count: 1, tasks: [] });
    expect(await node.call('GetTask', { task_id: 'default/notes' })).toMatchObject({ found: true });
    expect(await node.call('GetTask', { task_id: 'default/none' })).toMatchObject({ found: false });
    const refused = await operator.call('RegisterTask', { name: 'notes', executable: { type: 1, uri: 'x' } });
    expect(refused).toMatchObject({ success: false, message: expect.stringContaining('EXECUTABLE_TYPE_WASM') });
    await expect(node.call('RegisterTask', given)).rejects.toThrow('PERMISSION_DENIED');
    await expect(operator.call('RegisterTask', { name: 'No Name' })).rejects.toThrow('INVALID_ARGUMENT');
    expect(await operator.call('UnregisterTask', { task_id: 'default/notes' })).toMatchObject({ success: true });
    expect(await operator.call('UnregisterTask', { task_id: 'default/notes' })).toMatchObject({ success: false });
    const other = await createToken(sms, { name: 'op-a', roles: ['operator'], namespace: 'team-a' });
    expect((await putBlob(sms, hello, other)).status).toBe(201);
    const theirs = new OriginalClient(sms.sms.grpc, other, 'tasks');
    expect(await theirs.call('RegisterTask', given)).toMatchObject({ task_id: 'team-a/notes' });
    await expect(theirs.call('RegisterTask', { ...given, name: 'default/notes' })).rejects.toThrow('PERMISSION_DENIED');
  });
});

describe('--task-dir of a registry', () => {
  it('is the rule for its tasks; a wrong file leaves its task as it was [sms.tasks.directory]', async () => {
    const taskDir = temporaryDirectory();
    copyFileSync(fixture('c/hello.wasm'), join(taskDir, 'hello.wasm'));
    writeFileSync(join(taskDir, 'notes.toml'), 'name = "notes"\nwasm = "hello.wasm"\n');
    const sms = await startTestSms({ taskDir });
    const notes = () =>
      sms.http('GET', '/admin/api/tasks/default/notes').then(({ body, status }) => ({ status, ...body }));
    expect(await notes()).toMatchObject({ live: 1, from: join(taskDir, 'notes.toml'), created_by: 'directory' });
    await applyTask(sms, { name: 'by-hand' });

    writeFileSync(join(taskDir, 'notes.toml'), 'name = "notes"\nwasm = "hello.wasm"\nargs = ["x"]\n');
    await sms.sms.reload();
    expect(await notes()).toMatchObject({ live: 2 });
    await sms.http('POST', '/admin/api/tasks/default/notes/promote?revision=1');
    await sms.sms.reload();
    expect(await notes()).toMatchObject({ live: 1 });

    writeFileSync(join(taskDir, 'notes.toml'), 'name = "notes"\nwasm = "nowhere.wasm"\n');
    await sms.sms.reload();
    expect(await notes()).toMatchObject({ live: 1 });
    expect(sms.logged.join('\n')).toContain('nowhere.wasm cannot be read (ENOENT)');

    rmSync(join(taskDir, 'notes.toml'));
    await sms.sms.reload();
    expect(await notes()).toMatchObject({ status: 404 });
    expect((await sms.http('GET', '/admin/api/tasks/default/by-hand')).status).toBe(200);
    writeFileSync(join(taskDir, 'bad.toml'), 'name = "bad"\nwasm = "nowhere.wasm"\n');
    await expect(startTestSms({ taskDir, strict: true })).rejects.toThrow('--strict');
  });
});

it('forgets the oldest revisions, those of removed tasks, and modules that nothing has, each in its time', async () => {
  const sms = await startTestSms();
  const { config } = sms;
  await sms.sms.close();
  const store = openSqliteStore(config.files.data);
  const caller = Caller.process('test');
  const limits = { ...config.limits, kept_task_revisions: 2, removed_task_keep_ms: 1_000, unused_blob_keep_ms: 1_000 };
  const { book, blobs, requests, sweep, close } = openRegistryTasks({ ...config, limits }, store, noTrail, () => {});
  const named = { namespace: 'default', name: 'notes' };
  const sha256 = await blobs.put(hello);
  const other = await blobs.put(readFileSync(fixture('c/files.wasm')));
  for (const wasm of [sha256, other, other, other]) {
    const args = [String((await book.find(named))?.revisions ?? 0)];
    await requests.apply(named, { ...named, wasm: `sha256:${wasm}`, args }, { name: 'test', namespace: '*' }, caller);
  }
  expect((await book.revisions(named)).map(({ revision }) => revision)).toEqual([4, 3]);
  const long = Date.now() + 60_000;
  await sweep.sweep(Date.now());
  expect(blobs.has(sha256)).toBe(true);
  await sweep.sweep(long);
  expect([blobs.has(sha256), blobs.has(other)]).toEqual([false, true]);
  await book.remove(named, caller);
  await sweep.sweep(Date.now());
  expect(await book.revision(named, 4)).toMatchObject({ revision: 4 });
  await sweep.sweep(long);
  expect([await book.revision(named, 4), blobs.has(other)]).toEqual([null, false]);
  // A put is a new beginning, also of what is there already.
  await blobs.put(hello);
  const path = join(config.files.blobs, `${sha256}.wasm`);
  utimesSync(path, 1, 1);
  await blobs.put(hello);
  await sweep.sweep(Date.now());
  expect(existsSync(path)).toBe(true);
  writeFileSync(path, 'something else');
  await expect(blobs.read(sha256)).rejects.toThrow('is damaged');
  await close();
  await store.close();
});

it('many who apply at once get a revision each, and none is lost', async () => {
  const sms = await withHello();
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, n) => applyTask(sms, { name: 'notes', args: [String(n)] })),
  );
  expect(answers.map(({ body }) => Number(body.live)).sort((a, b) => a - b)).toEqual(
    Array.from({ length: 12 }, (_, n) => n + 1),
  );
  const { body } = await sms.http('GET', '/admin/api/tasks/default/notes');
  expect(new Set((body.all as { args: string[] }[]).map(({ args }) => args[0])).size).toBe(12);
});
