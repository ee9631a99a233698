import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import { describe, expect, it, onTestFinished } from 'vitest';
import { GuestThreads, type GuestThreadsOptions, type RunOptions, runGuest } from '../../../src/index.ts';
import { until } from '../../support/until.ts';

const fixture = (name: string) => new URL(`../../../fixtures/${name}`, import.meta.url).pathname;
/** Long enough that no guest is ended for being slow on a busy machine. */
const PATIENT = { turn_ms: 30_000 };

const module = (run: string, more = '') =>
  parse(`(module
    (import "spear" "sleep_ms" (func $sleep (param i32)))
    (import "spear" "log" (func $log (param i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 4) ${more}
    (data (i32.const 16) "\\00\\01\\00\\00\\00\\40\\00\\00")
    (func (export "run") (result i32) ${run}))`);

const spinning = () => module('(loop $l (br $l)) (i32.const 0)');
const waiting = () => module('(call $sleep (i32.const 1000000)) (i32.const 0)');
const answering = (code: number) => module(`(i32.const ${code})`);
/** A line of instructions without any loop, each of which takes milliseconds and cannot be interrupted. */
const holding = () =>
  module(
    `(drop (memory.grow (i32.const 1000)))
     ${'(memory.fill (i32.const 0) (i32.const 1) (i32.const 64000000)) '.repeat(300)} (i32.const 0)`,
  );

function open(options: GuestThreadsOptions = { threads: 1 }) {
  const threads = new GuestThreads(options);
  onTestFinished(() => threads.close());
  const run = async (wasm: Uint8Array | Promise<Uint8Array>, more: Partial<RunOptions> = {}) =>
    runGuest({ wasm: await wasm, threads, output: () => {}, limits: PATIENT, ...more });
  const placed = () => threads.threads.reduce((sum, { guests }) => sum + guests, 0);
  return { threads, run, placed };
}

describe('guests that share a thread', () => {
  it('take turns: while two spin a third begins and ends, and each is ended at its own end [threads.turns]', async () => {
    const { run, placed } = open();
    const ends: string[] = [];
    const spin = async (name: string, more: Partial<RunOptions>) => {
      const { reason, isolation } = await run(spinning(), more);
      ends.push(name);
      return [reason, isolation.kind];
    };
    const stops = [new AbortController(), new AbortController()];
    const [first, second] = stops.map(({ signal }, at) => spin(`spins ${at}`, { signal }));
    await until(() => placed() === 2, 'two to be placed');
    expect(await run(answering(7))).toMatchObject({ reason: 'exit', exitCode: 7, isolation: { kind: 'shared' } });
    expect(await spin('at its deadline', { limits: { ...PATIENT, timeout_ms: 1_000 } })).toEqual([
      'deadline',
      'shared',
    ]);
    expect(await run(answering(8))).toMatchObject({ exitCode: 8 });
    expect(ends).toEqual(['at its deadline']);
    stops[1]?.abort();
    expect(await second).toEqual(['interrupted', 'shared']);
    expect(await run(answering(9))).toMatchObject({ exitCode: 9 });
    expect(ends).toEqual(['at its deadline', 'spins 1']);
    stops[0]?.abort();
    expect(await first).toEqual(['interrupted', 'shared']);
  });

  it('are ended alone where they wait, and the others wait on [threads.end]', async () => {
    const { run, placed } = open();
    const stops = Array.from({ length: 20 }, () => new AbortController());
    const wasm = await waiting();
    const runs = stops.map(({ signal }) => run(wasm, { signal }));
    await until(() => placed() === 20, 'all to be placed');
    stops[3]?.abort();
    expect((await runs[3])?.reason).toBe('interrupted');
    expect(placed()).toBe(19);
    for (const stop of stops) stop.abort();
    expect(new Set((await Promise.all(runs)).map(({ reason }) => reason))).toEqual(new Set(['interrupted']));
    expect(placed()).toBe(0);
  });

  it('cannot swallow their end [threads.end]', async () => {
    const { run, placed } = open();
    const stop = new AbortController();
    const stubborn = module(
      `(local $n i32) loop $l try i32.const 1000000 call $sleep catch_all end br $l end i32.const 0`,
    );
    const ended = run(stubborn, { signal: stop.signal });
    await until(() => placed() === 1, 'it to be placed');
    stop.abort();
    expect((await ended).reason).toBe('interrupted');
  });

  it('exit with a code, trap with their frames, and read their input as on a thread of their own', async () => {
    const { run } = open();
    expect(await run(module('(call $exit (i32.const 300)) (i32.const 0)'))).toMatchObject({
      reason: 'exit',
      exitCode: 300,
    });
    const trapped = await run(module('(call $deep) (i32.const 0)', '(func $deep unreachable)'));
    expect(trapped).toMatchObject({ reason: 'trap', message: 'unreachable' });
    expect(trapped.stack).toContain('deep');
    const reading = await run(
      module('(drop (call $read (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 8))) (i32.load (i32.const 8))'),
      {
        stdin: () => Readable.from([Buffer.from('seven!!')]),
      },
    );
    expect(reading.exitCode).toBe(7);
  });

  it('wait for a slow reader of their output without holding up the others [threads.output]', async () => {
    const { run } = open();
    let taken = 0;
    const { promise: isResumable, resolve: goOn } = Promise.withResolvers<void>();
    const slow = new Writable({
      highWaterMark: 1,
      write(chunk: Buffer, _encoding, done) {
        taken += chunk.byteLength;
        void isResumable.then(() => done());
      },
    });
    const rounds = 400; // of 16 KiB: more than there is room for
    const writes = module(
      `(local $i i32) (loop $l (drop (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 8)))
        (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const ${rounds})))) (i32.const 5)`,
    );
    const writing = run(writes, { output: { stdout: slow } });
    await until(() => taken > 0, 'the first bytes');
    expect((await run(answering(3))).exitCode).toBe(3);
    goOn();
    expect((await writing).exitCode).toBe(5);
    await until(() => taken === rounds * 16_384, 'all of it');
  });

  it('of two namespaces are on two threads [threads.namespaces]', async () => {
    const { threads, run, placed } = open({ threads: 4 });
    const stop = new AbortController();
    const wasm = await waiting();
    const runs = ['one', 'two', 'one', 'two', 'one', 'one', 'one'].map((namespace) =>
      run(wasm, { namespace, signal: stop.signal }),
    );
    await until(() => placed() === 7, 'all to be placed');
    const spaces = threads.threads.map(({ namespace, guests }) => `${namespace} ${guests > 0}`);
    expect(new Set(spaces)).toEqual(new Set(['one true', 'two true']));
    stop.abort();
    await Promise.all(runs);
  });

  it('are placed in turn where a thread is full, and those of another namespace get the thread that is left', async () => {
    const { run, placed } = open({ threads: 1, guestsPerThread: 2 });
    const stop = new AbortController();
    const wasm = await waiting();
    const runs = Array.from({ length: 2 }, () => run(wasm, { signal: stop.signal }));
    await until(() => placed() === 2, 'two to be placed');
    const third = run(answering(3));
    const other = run(answering(4), { namespace: 'other' });
    expect(placed()).toBe(2);
    stop.abort();
    expect((await third).exitCode).toBe(3);
    expect((await other).exitCode).toBe(4);
    await Promise.all(runs);
  });

  it('are lost with their threads, also those that wait for room', async () => {
    const { threads, run, placed } = open({ threads: 1, guestsPerThread: 1 });
    const wasm = await waiting();
    const runs = [run(wasm), run(wasm)];
    await until(() => placed() === 1, 'the first to be placed');
    await threads.close();
    expect((await Promise.all(runs)).map(({ reason }) => reason)).toEqual(['lost', 'lost']);
  });
});

describe('a guest that holds its thread', () => {
  it('terminates it, its co-tenants are lost without blame, and its module gets dedicated threads [threads.quarantine]', async () => {
    const { run, placed } = open();
    const neighbour = run(waiting());
    await until(() => placed() === 1, 'the neighbour to be placed');
    const held = await holding();
    const limits = { turn_ms: 50 };
    expect(await run(held, { limits })).toMatchObject({
      reason: 'lost',
      message: expect.stringContaining('did not yield for limits.turn_ms = 50'),
      isolation: { kind: 'shared' },
    });
    expect(await neighbour).toMatchObject({
      reason: 'lost',
      message: expect.stringContaining('another guest blocked it'),
    });
    expect(await run(held, { limits: { ...limits, timeout_ms: 5_000 } })).toMatchObject({
      isolation: { kind: 'thread', why: 'a guest of this module blocked its shared thread' },
    });
    expect(await run(answering(6))).toMatchObject({ exitCode: 6, isolation: { kind: 'shared' } });
  });

  it('and its neighbours go on from their journals [threads.quarantine]', async () => {
    const { run, placed } = open();
    const folder = mkdtempSync(join(tmpdir(), 'spear-threads-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, 'run.journal');
    const wasm = module(
      `(drop (call $log (i32.const 2) (i32.const 64) (i32.const 5)))
       (drop (call $read (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 8))) (i32.load (i32.const 8))`,
      '(data (i32.const 64) "begun")',
    );
    const output: string[] = [];
    const take = (_stream: string, bytes: Uint8Array) => void output.push(Buffer.from(bytes).toString());
    const neighbour = run(wasm, { journal: { file }, output: take, stdin: () => new PassThrough() });
    await until(() => output.length === 1, 'what it says first');
    expect(placed()).toBe(1);
    await run(holding(), { limits: { turn_ms: 50 } });
    expect((await neighbour).reason).toBe('lost');
    const stdin = () => Readable.from([Buffer.from('nine more')]);
    const resumed = await run(wasm, { journal: { file, mode: 'resume' }, output: take, stdin });
    expect(resumed).toMatchObject({ reason: 'exit', exitCode: 9, isolation: { kind: 'shared' } });
    expect(output).toEqual(['begun\n']);
  });
});

describe('a module that cannot be shared', () => {
  it('runs on a thread of its own, and the result says why [threads.alone]', async () => {
    const { run } = open();
    const wasm = parse('(module (import "spear:turns" "x" (func)) (memory (export "memory") 1) (func (export "run")))');
    expect(await run(wasm, { allowUnknownImports: true })).toMatchObject({
      reason: 'exit',
      isolation: { kind: 'thread', why: expect.stringContaining('yield points cannot be added') },
    });
  });
});

describe('components in the fast lane', () => {
  it('share a thread as well, also one that spins and one that waits [threads.components]', async () => {
    const { run } = open();
    const output: string[] = [];
    const stop = new AbortController();
    const spin = run(spinning(), { signal: stop.signal });
    const result = await runGuestOf('rust/hello.component.wasm', run, output);
    expect(result).toMatchObject({ reason: 'exit', exitCode: 0, isolation: { kind: 'shared' } });
    expect(output.join('')).toContain('hello');
    stop.abort();
    expect((await spin).reason).toBe('interrupted');
  });
});

async function runGuestOf(name: string, run: ReturnType<typeof open>['run'], output: string[]) {
  const { readFile } = await import('node:fs/promises');
  const cache = mkdtempSync(join(tmpdir(), 'spear-threads-'));
  onTestFinished(() => rmSync(cache, { recursive: true }));
  return run(readFile(fixture(name)), {
    componentCache: cache,
    output: (_stream, bytes) => void output.push(Buffer.from(bytes).toString()),
  });
}
