import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { FollowedTasks } from '../../src/node/node-tasks.ts';
import { TaskStore } from '../../src/node/task-store.ts';
import { EmbeddedQueue } from '../../src/server/queue/embedded/embedded-queue.ts';
import type { TaskContent } from '../../src/server/records/task.ts';
import { Blobs } from '../../src/server/tasks/blobs.ts';
import { onStop, startTestSms, stopAll, type TestSms, temporaryDirectory } from '../registry/running-sms.ts';
import { applyTask, hello, helloSha256, putBlob } from '../registry/tasks/task-calls.ts';
import { until } from '../support/until.ts';

afterEach(stopAll);

const notes = { namespace: 'default', name: 'notes' };
const content: TaskContent = {
  ...{ ...notes, wasm: helloSha256, description: '', args: ['local'], env: {}, backend: null, pool: 'default' },
  ...{ isolation: 'shared', concurrency: 1, config: {}, limits: {}, retry: { max_attempts: 1 } },
  budgets: { tokens_per_run: null, tokens_per_day: null },
};

/** What a node has: a store of tasks, modules and a queue, real and empty. */
async function follow(sms: TestSms, prepare: (store: TaskStore, queue: EmbeddedQueue) => unknown = () => {}) {
  const folder = temporaryDirectory();
  const store = new TaskStore(join(folder, 'tasks.db'));
  const queue = new EmbeddedQueue(join(folder, 'runs.db'), { maxQueued: 10 });
  const blobs = new Blobs(join(folder, 'blobs'));
  await prepare(store, queue);
  const logged: string[] = [];
  const isPinned = async (named: { namespace: string; name: string }, revision: number) => {
    const { runs } = await queue.list(named.namespace, { task: named.name, status: 'queued', limit: 10 });
    return runs.some((run) => run.revision === revision);
  };
  const followed = new FollowedTasks({
    ...{ port: sms.source().tasks(() => {}), store, blobs, isPinned },
    admission: { backends: new Set(['main']), pool: 'default' },
    log: (level, event, fields = {}) => logged.push(`${level} ${event} ${JSON.stringify(fields)}`),
  });
  onStop(async () => {
    await followed.close();
    store.close();
    await queue.close();
  });
  expect(await followed.open(10_000)).toBe(true);
  return { store, queue, blobs, followed, logged, folder };
}

const submit = (queue: EmbeddedQueue) =>
  queue.submit({
    ...{ id: `run-${'0'.repeat(32)}`, namespace: 'default', task: 'notes', revision: 1, wasm: helloSha256 },
    ...{ pool: 'default', submittedBy: 'ann', input: new Uint8Array(), maxAttempts: 1 },
  });

it('adopts the tasks of the registry, and removes the others', async () => {
  const sms = await startTestSms();
  await putBlob(sms, hello);
  await applyTask(sms, { name: 'notes', args: ['of the registry'] });
  const { store, blobs, followed } = await follow(sms, (own) => {
    own.apply({ ...content, name: 'mine' }, 'admin');
    own.apply(content, 'admin');
  });
  expect(store.list(null).map(({ name, live }) => [name, live.args])).toEqual([['notes', ['of the registry']]]);
  await until(() => blobs.has(helloSha256), 'the module');
  expect(Buffer.from(await followed.module(helloSha256)).equals(hello)).toBe(true);
  // A revision that was live once comes when a run has it.
  await applyTask(sms, { name: 'notes', args: ['2'] });
  await applyTask(sms, { name: 'later' });
  await until(() => store.find({ ...notes, name: 'later' }) !== null, 'the next task');
  await sms.http('DELETE', '/admin/api/tasks/default/later');
  await until(() => store.find({ ...notes, name: 'later' }) === null, 'its end');
  expect(await followed.revision({ ...notes, name: 'later' }, 1)).toMatchObject({ name: 'later' });
  expect(await followed.revision(notes, 9)).toBeNull();
});

it('never runs another revision under the number that a run has', async () => {
  const sms = await startTestSms();
  await putBlob(sms, hello);
  await applyTask(sms, { name: 'notes', args: ['of the registry'] });
  const { store, logged } = await follow(sms, async (own, queue) => {
    own.apply(content, 'admin');
    await submit(queue);
  });
  expect(store.find(notes)).toBeNull();
  expect(store.revision(notes, 1)).toMatchObject({ args: ['local'] });
  expect(logged.join('\n')).toContain('unfinished runs use a different revision with this number');
  await applyTask(sms, { name: 'notes', args: ['next'] });
  await until(() => store.find(notes) !== null, 'the next revision');
  expect(store.find(notes)?.live).toMatchObject({ revision: 2, args: ['next'] });
});

it('does not keep a module that is something else than its digest says', async () => {
  const sms = await startTestSms();
  await putBlob(sms, hello);
  await applyTask(sms, { name: 'notes' });
  writeFileSync(join(sms.config.files.blobs, `${helloSha256}.wasm`), 'something else');
  const { blobs, logged, folder } = await follow(sms);
  await until(() => logged.some((line) => line.includes('module_not_fetched')), 'the refusal');
  expect(logged.join('\n')).toContain('sent a module with sha256');
  expect([blobs.has(helloSha256), readdirSync(folder).includes('blobs')]).toEqual([false, false]);
});
