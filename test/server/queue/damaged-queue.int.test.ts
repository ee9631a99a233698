import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { TaskStore } from '../../../src/node/task-store.ts';
import { EmbeddedQueue } from '../../../src/server/queue/embedded/embedded-queue.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-damaged-'));
afterAll(() => rmSync(folder, { recursive: true }));

const PAGE_BYTES = 4_096;
const newRun = (id: string) => ({
  ...{ id, namespace: 'default', task: 't', revision: 1, wasm: 'x', pool: 'default', submittedBy: 'ann' },
  ...{ input: Buffer.alloc(20_000, 'input'), maxAttempts: 3 },
});

async function damaged(name: string, change: (bytes: Buffer) => void): Promise<string> {
  const path = join(folder, name);
  const queue = new EmbeddedQueue(path, { maxQueued: 10 });
  await queue.submit(newRun('run-1'));
  await queue.close();
  const bytes = readFileSync(path);
  change(bytes);
  writeFileSync(path, bytes);
  return path;
}

describe('a damaged runs.db', () => {
  it.each([
    ['its header', (bytes: Buffer) => void bytes.fill(0x58, 0, 100)],
    ['its schema', (bytes: Buffer) => void bytes.fill(0xff, 100, PAGE_BYTES)],
    ['every page but the first', (bytes: Buffer) => void bytes.fill(0xff, PAGE_BYTES)],
  ])('is named with what to do: %s [node.damaged]', async (what, change) => {
    const path = await damaged(`${what}.db`, change);
    const open = () => new EmbeddedQueue(path, { maxQueued: 10 });
    expect(open).toThrow(`${path} is damaged (`);
    expect(open).toThrow('spearlet restore FILE');
  });

  it('is named also when the damage is found only as a run starts [node.damaged]', async () => {
    const path = await damaged('input.db', (bytes) => {
      // A page of a large value begins with the number of the next one.
      const inside = bytes.indexOf('inputinputinput', bytes.indexOf('inputinputinput') + 2 * PAGE_BYTES);
      bytes.fill(0xff, inside - (inside % PAGE_BYTES), inside - (inside % PAGE_BYTES) + 4);
    });
    const queue = new EmbeddedQueue(path, { maxQueued: 10 });
    const [claim] = await queue.claim('n', 'default', 1, 60_000, () => true);
    await expect(claim?.input()).rejects.toThrow(`${path} is damaged (`);
    await queue.close();
  });
});

describe('a damaged tasks.db', () => {
  it.each([
    ['its header', (bytes: Buffer) => void bytes.fill(0x58, 0, 100)],
    ['every page but the first', (bytes: Buffer) => void bytes.fill(0xff, PAGE_BYTES)],
  ])('is named with what to do: %s [node.damaged]', (what, change) => {
    const path = join(folder, `tasks, ${what}.db`);
    new TaskStore(path).close();
    const bytes = readFileSync(path);
    change(bytes);
    writeFileSync(path, bytes);
    const read = () => {
      const store = new TaskStore(path);
      try {
        store.list(null);
      } finally {
        store.close();
      }
    };
    expect(read).toThrow(`${path} is damaged (`);
    expect(read).toThrow('spearlet restore FILE');
  });
});
