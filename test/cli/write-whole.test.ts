import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { writeWhole } from '../../src/cli/write-whole.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-write-whole-'));
afterAll(() => rmSync(folder, { recursive: true }));

it('does not disturb another command that writes to the same target', async () => {
  const target = join(folder, 'node.backup');
  const second = Promise.withResolvers<void>();
  const first = writeWhole(
    target,
    (async function* () {
      yield Buffer.from('first ');
      await second.promise;
      yield Buffer.from('whole');
    })(),
  );
  // biome-ignore lint/correctness/useYield: the source fails before its first bytes
  const inUse = (async function* (): AsyncGenerator<Uint8Array> {
    throw new Error('in use');
  })();
  await expect(writeWhole(target, inUse)).rejects.toThrow('in use');
  second.resolve();
  await first;
  expect([readFileSync(target, 'utf8'), readdirSync(folder)]).toEqual(['first whole', ['node.backup']]);
});

it('leaves no partial file if the target cannot be replaced', async () => {
  const target = join(folder, 'directory');
  mkdirSync(target);
  const source = (async function* () {
    yield Buffer.from('x');
  })();
  await expect(writeWhole(target, source)).rejects.toThrow('EISDIR');
  expect(readdirSync(folder).filter((name) => name.endsWith('.partial'))).toEqual([]);
});
