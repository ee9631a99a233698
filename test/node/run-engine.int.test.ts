import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { Retention } from '../../src/node/run-engine.ts';
import { FileJournals } from '../../src/node/run-journals.ts';
import { EmbeddedQueue } from '../../src/server/queue/embedded/embedded-queue.ts';
import type { Claim } from '../../src/server/queue/run-queue.ts';
import { newRun, success } from '../server/queue/queue-contract.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-retention-'));
afterEach(() => rmSync(folder, { recursive: true }));

it('a run that ended long ago goes, with its result and journal; others stay [node.retention]', async () => {
  const queue = new EmbeddedQueue(join(folder, 'runs.db'), { maxQueued: 10 });
  const journals = new FileJournals(join(folder, 'journals'));
  for (const id of ['run-old', 'run-waits']) {
    await queue.submit(newRun(id));
    writeFileSync(journals.prepare('default', id), '');
  }
  const [claim] = (await queue.claim('n', 'default', 1, 1_000, () => true)) as [Claim];
  await queue.finish(claim, success('x'));
  const early = new Retention(queue, journals, 24, () => {});
  await early.close();
  expect(await queue.get('default', 'run-old')).not.toBeNull();
  const late = new Retention(
    queue,
    journals,
    24,
    () => {},
    () => Date.now() + 25 * 3_600_000,
  );
  await late.close();
  expect(await queue.get('default', 'run-old')).toBeNull();
  expect(existsSync(journals.path('default', 'run-old'))).toBe(false);
  expect(await queue.get('default', 'run-waits')).toMatchObject({ status: 'queued' });
  expect(existsSync(journals.path('default', 'run-waits'))).toBe(true);
  await queue.close();
});
