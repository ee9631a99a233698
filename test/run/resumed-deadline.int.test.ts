import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import { expect, it, onTestFinished } from 'vitest';
import { type RunOptions, runGuest } from '../../src/index.ts';

const SLEEP_MS = 300;

/** Sleeps, logs, and reads its input. */
const guest = () =>
  parse(`(module
    (import "spear" "sleep_ms" (func $sleep (param i32)))
    (import "spear" "log" (func $log (param i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1) (data (i32.const 16) "\\00\\01\\00\\00\\40\\00\\00\\00slept")
    (func (export "run") (result i32) (call $sleep (i32.const ${SLEEP_MS}))
      (drop (call $log (i32.const 2) (i32.const 24) (i32.const 5)))
      (drop (call $read (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 8))) (i32.load (i32.const 8))))`);

/** A run that was interrupted after its sleep, and its next attempt. */
async function interrupted() {
  const folder = mkdtempSync(join(tmpdir(), 'spear-deadline-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'run.journal');
  const wasm = new Uint8Array(await guest());
  const run = (more: Partial<RunOptions>) => runGuest({ wasm, journal: { file, mode: 'resume' }, ...more });
  const stop = new AbortController();
  const output = () => stop.abort();
  const stdin = () => new PassThrough();
  expect(await run({ journal: { file }, signal: stop.signal, output, stdin })).toMatchObject({ reason: 'interrupted' });
  const last = () => JSON.parse(readFileSync(file, 'utf8').trimEnd().split('\n').at(-1) as string);
  return { run, last };
}

const answers = () => Readable.from([Buffer.from('seven!!')]);

it('a resumed run continues with the time that its earlier attempts used [run.deadline-start]', async () => {
  const { run, last } = await interrupted();
  const { spent_ms } = last();
  expect(spent_ms).toBeGreaterThan(SLEEP_MS / 2);
  const stop = new AbortController();
  const stdin = () => {
    stop.abort();
    return new PassThrough();
  };
  expect(await run({ output: () => {}, stdin, signal: stop.signal })).toMatchObject({ reason: 'interrupted' });
  expect(last().spent_ms).toBeGreaterThanOrEqual(spent_ms);
  expect(await run({ output: () => {}, stdin: answers })).toMatchObject({ reason: 'exit', exitCode: 7 });
});

it('an attempt that ends during its replay has used nothing more [run.deadline-start]', async () => {
  const { run, last } = await interrupted();
  const { spent_ms } = last();
  const stopped = AbortSignal.abort();
  expect(await run({ output: () => {}, stdin: answers, signal: stopped })).toMatchObject({ reason: 'interrupted' });
  expect(last()).toMatchObject({ reason: 'interrupted', spent_ms });
});
