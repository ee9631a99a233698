import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';
import type { RunRecord } from '../../src/server/records/run.ts';
import { NodeLives, writeNodeFolder } from '../torture/node/node-life.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-node-disk-'));
const node = new NodeLives(folder);
const hello = '/v1/namespaces/default/tasks/hello/runs';
const runs = '/v1/namespaces/default/runs';
/** Of any one file, as on a disk that is full. */
const MAX_FILE_BYTES = 2 * 1024 * 1024;

afterAll(async () => {
  await node.kill();
  rmSync(folder, { recursive: true, force: true });
});

it('a node without room refuses what it cannot keep, and loses nothing that it acknowledged [node.full-disk]', async () => {
  writeNodeFolder(folder);
  node.launcher = ['prlimit', `--fsize=${MAX_FILE_BYTES}`];
  await node.start();
  const acknowledged: string[] = [];
  let refused = { status: 0, text: '' };
  while (refused.status === 0) {
    const answer = await node.ask('POST', hello, { body: 'x'.repeat(200_000) });
    if (answer.status === 202) acknowledged.push((JSON.parse(answer.text) as RunRecord).id);
    else refused = answer;
  }
  expect(acknowledged.length).toBeGreaterThan(0);
  expect(refused).toMatchObject({ status: 507, text: expect.stringContaining('urn:spear:problem:not-stored') });
  expect((await node.ask('GET', `${runs}/${acknowledged[0]}`)).status).toBe(200);
  expect(node.crashed).toBe(0);
  await node.kill();
  node.launcher = [];
  await node.start();
  for (const id of acknowledged) {
    for (;;) {
      const run = JSON.parse((await node.ask('GET', `${runs}/${id}`)).text) as RunRecord;
      if (run.status === 'succeeded') break;
      expect(['queued', 'running']).toContain(run.status);
      await delay(20);
    }
  }
  const { runs: all } = JSON.parse((await node.ask('GET', `${runs}?limit=500`)).text) as { runs: RunRecord[] };
  expect(all.map(({ id }) => id).sort()).toEqual(acknowledged.toSorted());
});
