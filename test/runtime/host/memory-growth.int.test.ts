import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import { expect, it, onTestFinished } from 'vitest';
import { GuestThreads, type RunOptions, runGuest } from '../../../src/index.ts';
import { until } from '../../support/until.ts';

const MIB = 1024 * 1024;
const PAGES = 16; // of a mebibyte

/** Logs, reads its input, grows by so many mebibytes, logs, and reads its input to its end. */
const growing = (mib: number) =>
  parse(`(module
    (import "spear" "log" (func $log (param i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1) (data (i32.const 16) "\\00\\01\\00\\00\\01\\00\\00\\00begungrown")
    (func $read (result i32) (drop (call $fd_read (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 8)))
      (i32.load (i32.const 8)))
    (func (export "run") (result i32) (drop (call $log (i32.const 2) (i32.const 24) (i32.const 5)))
      (drop (call $read)) (drop (memory.grow (i32.const ${mib * PAGES})))
      (drop (call $log (i32.const 2) (i32.const 29) (i32.const 5)))
      (loop $more (br_if $more (call $read))) (i32.const 7)))`);

function open() {
  const threads = new GuestThreads({ threads: 1, memoryBytesPerThread: 32 * MIB });
  onTestFinished(() => threads.close());
  const folder = mkdtempSync(join(tmpdir(), 'spear-growth-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  /** A guest that grows its memory on request and ends with its input. */
  const start = async (name: string, mib: number) => {
    const stdin = new PassThrough();
    const output: string[] = [];
    const options: Partial<RunOptions> = {
      output: (_stream, bytes) => void output.push(Buffer.from(bytes).toString().trim()),
      limits: { turn_ms: 30_000 },
      threads,
    };
    const wasm = new Uint8Array(await growing(mib));
    const file = join(folder, name);
    const ended = runGuest({ wasm, ...options, journal: { file }, stdin: () => stdin });
    const resume = () =>
      runGuest({ wasm, ...options, journal: { file, mode: 'resume' }, stdin: () => Readable.from([]) });
    await until(() => output.includes('begun'), 'the guest to begin');
    const grow = async () => {
      stdin.write('.');
      await until(() => output.includes('grown'), 'the guest to grow');
    };
    return { ended, resume, grow, end: () => stdin.end(), output };
  };
  const usedBytes = () => threads.threads[0]?.memoryBytes ?? 0;
  return { start, usedBytes };
}

it('the guest whose growth crosses the limit of its thread ends as lost, not the largest, and resumes on its own thread [threads.memory]', async () => {
  const { start, usedBytes } = open();
  const large = await start('large', 20);
  await large.grow();
  await until(() => usedBytes() > 20 * MIB, 'the large guest to be measured');
  const small = await start('small', 13);
  void small.grow().catch(() => {});
  expect(await small.ended).toMatchObject({
    reason: 'lost',
    message: expect.stringContaining('grew beyond what its shared thread has for all guests, 33554432 bytes'),
    isolation: { kind: 'shared' },
  });
  const resumed = await small.resume();
  expect(resumed).toMatchObject({
    ...{ reason: 'exit', exitCode: 7 },
    isolation: { kind: 'thread', why: 'the memory of the guest grew beyond the limit of its shared thread' },
  });
  expect(small.output.filter((line) => line === 'begun')).toHaveLength(1);
  large.end();
  expect(await large.ended).toMatchObject({ reason: 'exit', exitCode: 7, isolation: { kind: 'shared' } });
});

it('of several guests that grow at once one ends as lost, and the largest, which does not, continues [threads.memory]', async () => {
  const { start, usedBytes } = open();
  const large = await start('large', 31);
  await large.grow();
  await until(() => usedBytes() > 31 * MIB, 'the large guest to be measured');
  const others = await Promise.all(['one', 'two'].map((name) => start(name, 1)));
  for (const other of others) void other.grow().catch(() => {});
  expect(await Promise.race(others.map(({ ended }) => ended))).toMatchObject({ reason: 'lost' });
  for (const guest of [large, ...others]) guest.end();
  expect(await large.ended).toMatchObject({ reason: 'exit' });
  await Promise.all(others.map(({ ended }) => ended));
});
