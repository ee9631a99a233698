import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import type { RunRecord } from '../../src/server/records/run.ts';
import { stopAll } from '../registry/running-sms.ts';
import { fixture } from '../registry/tasks/task-calls.ts';
import { eventually } from '../support/eventually.ts';
import { writeNodeFolder } from '../torture/node/node-life.ts';
import { startNode } from './started-spearlet.ts';

afterEach(stopAll);

/** As many namespaces as a node has guest threads: one per processor, two at least, and one more. */
const busy = Array.from({ length: Math.max(2, availableParallelism()) + 1 }, (_, at) => `busy-${at}`);

/** Tasks whose guests sleep for less than the time after which a run gives up its thread, and one that ends at once. */
function prepare(folder: string): void {
  writeNodeFolder(folder, { node: 'namespace_threads = 1\npark_after_ms = 600000\ndrain_ms = 0' });
  const task = (namespace: string, wasm: string, more: string) =>
    writeFileSync(
      join(folder, 'tasks.d', `${namespace}.toml`),
      `name = "work"\nnamespace = "${namespace}"\nwasm = ${JSON.stringify(fixture(wasm))}\n${more}`,
    );
  for (const namespace of busy) task(namespace, 'c/test/sleep.wasm', 'args = ["500000"]\n');
  task('late', 'c/hello.wasm', '');
}

it('returns a run for which there is no guest thread to the queue, and runs it once there is [threads.first]', async () => {
  const node = await startNode({ slots: busy.length + 1 }, prepare);
  const path = (namespace: string) => `/v1/namespaces/${namespace}`;
  const submit = async (namespace: string) => {
    const { text } = await node.ask(`${path(namespace)}/tasks/work/runs`, { method: 'POST' });
    return (JSON.parse(text) as RunRecord).id;
  };
  const get = async (namespace: string, id: string) =>
    JSON.parse((await node.ask(`${path(namespace)}/runs/${id}`)).text) as RunRecord;
  const sleepers = await Promise.all(busy.map(async (namespace) => ({ namespace, id: await submit(namespace) })));
  // A guest that has written something has its thread.
  await Promise.all(sleepers.map(({ namespace, id }) => node.event(`${path(namespace)}/runs/${id}`, 'output')));

  const late = await submit('late');
  let returned: RunRecord | undefined;
  const hasReturned = async () => {
    returned = await get('late', late);
    return returned.status_reason != null;
  };
  await eventually(hasReturned, 'the run to return to the queue');
  expect(returned).toMatchObject({
    status: 'queued',
    attempts: 0,
    status_reason: `no guest thread is free for namespace late: all ${busy.length} are in use`,
  });

  const [{ namespace, id } = { namespace: '', id: '' }] = sleepers;
  await node.ask(`${path(namespace)}/runs/${id}/cancel`, { method: 'POST' });
  await eventually(async () => (await get('late', late)).status === 'succeeded', 'the run to succeed');
  expect(await get('late', late)).toMatchObject({ attempts: 1, status_reason: null });
});
