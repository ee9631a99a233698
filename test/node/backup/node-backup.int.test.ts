import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { nodeFiles } from '../../../src/config/directories.ts';
import { archiveOf, backupOf } from '../../../src/node/backup/node-backup.ts';
import { refuseInterruptedRestore, restoreNode } from '../../../src/node/backup/node-restore.ts';
import { FileJournals } from '../../../src/node/run-journals.ts';
import { TaskStore } from '../../../src/node/task-store.ts';
import { EmbeddedQueue } from '../../../src/server/queue/embedded/embedded-queue.ts';
import { Blobs } from '../../../src/server/tasks/blobs.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-backup-'));
afterAll(() => rmSync(folder, { recursive: true }));

const ids = ['run-aa', 'run-bb', 'run-cc'] as const;
const newRun = (id: string) => ({
  ...{ id, namespace: 'default', task: 't', revision: 1, wasm: 'x', pool: 'default', submittedBy: 'ann' },
  ...{ input: Buffer.from(id), maxAttempts: 3 },
});
const claimAll = (queue: EmbeddedQueue) => queue.claim('n', 'default', 10, 60_000, () => true);
const succeeded = { status: 'succeeded', exit: { reason: 'exit', code: 0, message: null }, cost: null } as const;

let at = 0;
let files = nodeFiles(folder);
let archive = '';
let module = '';

/** A node with a run that ended, one that runs, and one that waits; backed up while it is open. */
beforeEach(async () => {
  files = nodeFiles(join(folder, String(++at)));
  archive = join(folder, `${at}.backup`);
  const queue = new EmbeddedQueue(files.runs, { maxQueued: 10 });
  const tasks = new TaskStore(files.tasks);
  module = await new Blobs(files.blobs).put(Buffer.from('module'));
  const journals = new FileJournals(files.journals);
  await queue.submit(newRun(ids[0]));
  const [first] = await claimAll(queue);
  if (first === undefined) throw new Error('nothing was claimed');
  await queue.finish(first, { ...succeeded, result: Buffer.from('out') });
  await queue.submit(newRun(ids[1]));
  await claimAll(queue);
  await queue.submit(newRun(ids[2]));
  for (const id of ids.slice(0, 2)) writeFileSync(journals.prepare('default', id), `journal of ${id}\n`);
  writeFileSync(journals.prepare('default', 'run-later'), 'a run that is not in the queue\n');
  await writeFile(archive, await buffer(backupOf({ files, runs: queue, tasks })));
  await queue.submit(newRun('run-after'));
  await queue.close();
  tasks.close();
});

const sound = { spear: '0.2.0', created_at_ms: 0 };

/** The bytes of an archive with any content. */
function archived(content: Readonly<Record<string, Buffer>>, manifest: typeof sound): Promise<Buffer> {
  async function* all() {
    for (const [path, bytes] of Object.entries(content)) {
      const body = async function* () {
        yield bytes;
      };
      yield { path, bytes: bytes.byteLength, content: body };
    }
  }
  return buffer(archiveOf(all(), manifest));
}

describe('a backup of a node', () => {
  it('has its runs, journals and modules, and starts a new epoch when restored [node.backup] [node.restore]', async () => {
    rmSync(files.journals, { recursive: true });
    expect(await restoreNode(archive, files)).toMatchObject({ unfinished: 2 });
    expect(() => refuseInterruptedRestore(files)).not.toThrow();
    const queue = new EmbeddedQueue(files.runs, { maxQueued: 10 });
    expect((await queue.list('default', { limit: 9 })).runs.map(({ id, status }) => [id, status])).toEqual([
      ['run-cc', 'queued'],
      ['run-bb', 'queued'],
      ['run-aa', 'succeeded'],
    ]);
    for (const id of ['run-bb', 'run-cc']) {
      expect((await queue.find(id))?.status_reason).toContain('restored from a backup');
    }
    expect(Buffer.from((await queue.result('run-aa')) ?? []).toString()).toBe('out');
    await queue.submit(newRun('run-new'));
    const claims = await claimAll(queue);
    expect(claims.map(({ run, isRestored }) => [run.id, isRestored])).toEqual([
      ['run-bb', true],
      ['run-cc', true],
      ['run-new', false],
    ]);
    const journals = new FileJournals(files.journals);
    expect(readFileSync(journals.path('default', 'run-bb'), 'utf8')).toBe('journal of run-bb\n');
    expect(existsSync(journals.path('default', 'run-later'))).toBe(false);
    expect(Buffer.from(await new Blobs(files.blobs).read(module)).toString()).toBe('module');
    await queue.close();
    new TaskStore(files.tasks).close();
    expect(readdirSync(join(files.directory, 'before-restore'))).toEqual(expect.arrayContaining(['runs.db', 'blobs']));
  });

  it('is not restored over a node that serves', async () => {
    const queue = new EmbeddedQueue(files.runs, { maxQueued: 10 });
    await expect(restoreNode(archive, files)).rejects.toThrow('runs.db is in use: stop the node, then restore');
    expect(await queue.find('run-after')).not.toBeNull();
    await queue.close();
  });

  it('that was cut or changed is rejected, and the data stays as it was [node.restore.checked]', async () => {
    const bytes = readFileSync(archive);
    const bad = join(folder, 'bad.backup');
    const changed = Buffer.from(bytes);
    const inside = changed.indexOf('journal of run-bb');
    changed[inside] = 0x58;
    for (const [content, why] of [
      [bytes.subarray(0, bytes.byteLength / 2), 'the file ends too early'],
      [changed, 'its sha256 does not match'],
      [Buffer.from('x'.repeat(2_000)), 'not a tar header'],
    ] as const) {
      writeFileSync(bad, content);
      await expect(restoreNode(bad, files)).rejects.toThrow(`${bad} cannot be restored: ${why}`);
    }
    const queue = new EmbeddedQueue(files.runs, { maxQueued: 10 });
    expect(await queue.find('run-after')).not.toBeNull();
    await queue.close();
  });

  it('without one of the stores, or with an unreadable manifest, is rejected [node.restore.checked]', async () => {
    const runs = readFileSync(files.runs);
    for (const [content, manifest, why] of [
      [{}, sound, 'runs.db is missing'],
      [{ 'runs.db': runs }, sound, 'tasks.db is missing'],
      [{ 'runs.db': runs, 'tasks.db': runs }, sound, 'tasks.db is not a task store'],
      [{ 'runs.db': runs }, { ...sound, created_at_ms: 1e300 }, 'the manifest is damaged'],
      [{ 'runs.db': runs }, { ...sound, spear: '\u001b[2J' }, 'the manifest is damaged'],
    ] as const) {
      writeFileSync(archive, await archived(content, manifest));
      await expect(restoreNode(archive, files)).rejects.toThrow(`${archive} cannot be restored: ${why}`);
    }
    expect(readdirSync(files.directory)).not.toContain('before-restore');
    const queue = new EmbeddedQueue(files.runs, { maxQueued: 10 });
    expect(await queue.find('run-after')).not.toBeNull();
    await queue.close();
  });

  it('unpacks nothing outside of the data directory', async () => {
    writeFileSync(archive, await archived({ 'blobs/../../escaped': Buffer.from('x') }, sound));
    await expect(restoreNode(archive, files)).rejects.toThrow('unexpected entry "blobs/../../escaped"');
  });

  it('replaces a damaged queue', async () => {
    writeFileSync(files.runs, 'damaged'.repeat(1_000));
    await restoreNode(archive, files);
    const queue = new EmbeddedQueue(files.runs, { maxQueued: 10 });
    expect(await queue.find('run-bb')).not.toBeNull();
    await queue.close();
  });

  it('keeps a node from starting while a restore is incomplete, and is restored again', async () => {
    // Killed after the first store was replaced.
    const replaced = join(files.directory, 'before-restore');
    mkdirSync(join(files.directory, 'restore'));
    mkdirSync(replaced);
    writeFileSync(join(replaced, 'runs.db'), 'the data before the first restore');
    expect(() => refuseInterruptedRestore(files)).toThrow('run "spearlet restore FILE" again');
    writeFileSync(`${archive}.cut`, readFileSync(archive).subarray(0, 5_000));
    await expect(restoreNode(`${archive}.cut`, files)).rejects.toThrow('the file ends too early');
    expect(() => refuseInterruptedRestore(files)).toThrow('run "spearlet restore FILE" again');
    await restoreNode(archive, files);
    expect(() => refuseInterruptedRestore(files)).not.toThrow();
    expect(readFileSync(join(replaced, 'runs.db'), 'utf8')).toBe('the data before the first restore');
    expect(readdirSync(replaced)).toContain('tasks.db');
  });
});
