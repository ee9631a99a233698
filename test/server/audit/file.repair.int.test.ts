import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, fstatSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { expect, it, onTestFinished } from 'vitest';
import { awaitWriters, repairTail } from '../../../src/server/audit/file.ts';
import { newTrail } from './audit-samples.ts';

const MIB = 1024 * 1024;
const START_MS = 30_000;
/** One write, which takes long enough to be seen in part. */
const writeAtOnce = `const { openSync, writeSync } = require('node:fs');
writeSync(openSync(process.argv[1], 'a'), Buffer.alloc(Number(process.argv[2]), 97));`;

it('what another process is writing is waited for, however long it takes [audit.rotation]', async () => {
  const path = newTrail();
  const fd = openSync(path, 'a+');
  onTestFinished(() => closeSync(fd));
  // What is seen in part is what this is about; a machine may be too fast for that.
  for (let bytes = 64 * MIB, isSeen = false; !isSeen; bytes *= 2) {
    expect(bytes).toBeLessThanOrEqual(1024 * MIB);
    const before = fstatSync(fd).size;
    const child = spawn(process.execPath, ['-e', writeAtOnce, path, String(bytes)]);
    const exited = once(child, 'exit');
    const until = performance.now() + START_MS;
    let size = before;
    while (size === before && performance.now() < until) size = fstatSync(fd).size;
    isSeen = size < before + bytes;
    awaitWriters(fd);
    expect(fstatSync(fd).size).toBe(before + bytes);
    expect(await exited).toEqual([0, null]);
  }
});

it('half a line of a file that was moved aside meanwhile stays, and nothing is made in its place [audit.rotation]', () => {
  const path = newTrail();
  writeFileSync(path, '{"v":1}\n{"v":');
  const fd = openSync(path, 'a+');
  onTestFinished(() => closeSync(fd));
  renameSync(path, `${path}.1`);
  expect(repairTail(fd, path)).toMatchObject({ event: { torn: '{"v":', torn_bytes: 5 }, needsNewline: true });
  expect(existsSync(path)).toBe(false);
  writeFileSync(path, '{"v":1}\n{"v":1}\n');
  expect(repairTail(fd, path)).toMatchObject({ needsNewline: true });
  expect(readFileSync(path, 'utf8')).toBe('{"v":1}\n{"v":1}\n');
  expect(readFileSync(`${path}.1`, 'utf8')).toBe('{"v":1}\n{"v":');
});
