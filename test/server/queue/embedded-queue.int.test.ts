import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { EmbeddedQueue } from '../../../src/server/queue/embedded/embedded-queue.ts';
import { newRun, queueContract } from './queue-contract.ts';

const folders: string[] = [];
const folder = () => {
  const made = mkdtempSync(join(tmpdir(), 'spear-queue-'));
  folders.push(made);
  return made;
};

afterEach(() => {
  for (const path of folders.splice(0)) rmSync(path, { recursive: true, force: true });
});

queueContract('the embedded engine', () => {
  const path = join(folder(), 'runs.db');
  let passed = 0;
  const open = async ({ maxQueued = 1_000 } = {}) =>
    new EmbeddedQueue(path, { maxQueued, now: () => Date.now() + passed });
  return {
    open,
    reopen: async (queue) => {
      await queue.close();
      return open();
    },
    leaseMs: 30_000,
    quietMs: 0,
    pass: async (ms) => {
      passed += ms;
    },
  };
});

describe('lines of an embedded queue', () => {
  it('take turns, each in its order', async () => {
    const queue = new EmbeddedQueue(join(folder(), 'runs.db'), { maxQueued: 100 });
    for (const id of ['a1', 'a2', 'a3']) await queue.submit(newRun(id));
    for (const id of ['b1', 'b2']) await queue.submit(newRun(id, { submittedBy: 'bob' }));
    await queue.submit(newRun('c1', { task: 'other' }));
    const taken = await queue.claim('n1', 'default', 4, 30_000, ({ task }) => task === 'hello');
    expect(taken.map(({ run }) => run.id)).toEqual(['a1', 'b1', 'a2', 'b2']);
    await queue.close();
  });
});

describe('the file of an embedded queue', () => {
  it('is for one process, and never another program’s', () => {
    const path = join(folder(), 'runs.db');
    const other = new DatabaseSync(path);
    other.exec('CREATE TABLE theirs (a)');
    other.close();
    expect(() => new EmbeddedQueue(path, { maxQueued: 1 })).toThrow(/is not a run queue/);
  });

  it('of the first format is taken as it is, with a copy kept, and can park [store.migration]', async () => {
    const path = join(folder(), 'runs.db');
    const first = new EmbeddedQueue(path, { maxQueued: 1 });
    await first.submit(newRun('r1'));
    await first.close();
    const older = new DatabaseSync(path);
    older.exec('DROP TABLE parked; PRAGMA user_version = 1');
    older.close();
    const queue = new EmbeddedQueue(path, { maxQueued: 1 });
    const copy = new DatabaseSync(`${path}.format-1`, { readOnly: true });
    expect(copy.prepare('PRAGMA user_version').get()).toEqual({ user_version: 1 });
    expect(copy.prepare('SELECT id FROM runs').all()).toEqual([{ id: 'r1' }]);
    copy.close();
    const [claim] = await queue.claim('n', 'default', 1, 1_000, () => true);
    expect(claim && (await queue.park(claim, { kind: 'stream' }))).toBe(true);
    expect(await queue.get('default', 'r1')).toMatchObject({ status: 'parked', parked_for: { kind: 'stream' } });
    await queue.close();
  });

  it('writes what comes together in one commit', async () => {
    const queue = new EmbeddedQueue(join(folder(), 'runs.db'), { maxQueued: 5_000 });
    const statements = vi.spyOn(DatabaseSync.prototype, 'exec');
    await Promise.all(Array.from({ length: 2_000 }, (_, n) => queue.submit(newRun(`r${n}`))));
    const commits = statements.mock.calls.filter(([sql]) => sql === 'COMMIT').length;
    statements.mockRestore();
    // One commit each would wait for the disk 2000 times.
    expect(commits).toBeGreaterThan(0);
    expect(commits).toBeLessThan(20);
    expect(queue.facts().byStatus.queued).toBe(2_000);
    await queue.close();
  });
});
