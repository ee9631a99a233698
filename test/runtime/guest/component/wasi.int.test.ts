import { PassThrough, Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { systemSources } from '../../../../src/runtime/durable/guest/sources.ts';
import { preview2 } from '../../../../src/runtime/guest/component/wasi/preview2.ts';
import { servedWasi } from '../../../../src/runtime/guest/component/wasi/served.ts';
import {
  type InputStream,
  IoError,
  type OutputStream,
  type Pollable,
} from '../../../../src/runtime/guest/component/wasi/streams.ts';
import { useComponentCache } from '../../../support/component-cache.ts';
import { adapted } from '../../../support/guest-text.ts';
import { fixtureBytes, runFixture } from '../../../support/run-fixture.ts';

/** A component is compiled first, on a machine that is busy with other things. */
const slow = { timeout: 120_000 };

interface Options {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly takesOutput?: boolean;
}

type Interfaces = {
  'wasi:cli/environment': { getEnvironment(): [string, string][]; getArguments(): string[]; initialCwd(): undefined };
  'wasi:cli/exit': { exit(status: { tag: 'ok' | 'err' }): never; exitWithCode(code: number): never };
  'wasi:cli/stdin': { getStdin(): InputStream };
  'wasi:cli/stdout': { getStdout(): OutputStream };
  'wasi:cli/stderr': { getStderr(): OutputStream };
  'wasi:cli/terminal-stdout': { getTerminalStdout(): undefined };
  'wasi:clocks/monotonic-clock': {
    now(): bigint;
    resolution(): bigint;
    subscribeDuration(ns: bigint): Pollable;
    subscribeInstant(at: bigint): Pollable;
  };
  'wasi:clocks/wall-clock': { now(): { seconds: bigint; nanoseconds: number } };
  'wasi:filesystem/preopens': { getDirectories(): unknown[] };
  'wasi:io/poll': { poll(list: Pollable[]): Promise<Uint32Array> };
  'wasi:random/random': { getRandomBytes(length: bigint): Uint8Array; getRandomU64(): bigint };
  'wasi:sockets/tcp-create-socket': { createTcpSocket(family: string): unknown };
};

const MS = 1_000_000n;

/** WASI as a component of this thread would get it; the test is the host that stdin comes from. */
function wasi({ args = [], env = {}, takesOutput = true }: Options = {}) {
  const output: [string, string][] = [];
  const asked: { maxBytes: number; receive: (chunk: Uint8Array) => void }[] = [];
  let exitCode: number | undefined;
  const all = preview2({
    args,
    env,
    output: { write: (stream, bytes) => takesOutput && output.push([stream, Buffer.from(bytes).toString()]) > 0 },
    sources: systemSources,
    stdin: { request: (maxBytes, receive) => void asked.push({ maxBytes, receive }), drain: () => {} },
    maxListBytes: 1_000_000,
    exit: (code) => {
      exitCode = code;
      throw new Error('ended');
    },
  }) as unknown as Interfaces;
  const give = (text: string) => asked.shift()?.receive(Buffer.from(text));
  return { all, output, asked, give, exitCode: () => exitCode };
}

const text = (result: { tag: string; val: unknown }) =>
  result.tag === 'ok' ? Buffer.from(result.val as Uint8Array).toString() : (result.val as { tag: string }).tag;

describe('the interfaces', () => {
  it('are all that are said to be served, and no more', () => {
    expect(Object.keys(wasi().all).sort()).toEqual([...servedWasi].sort());
  });

  it('of files and sockets give nothing [component.wasi.nothing]', () => {
    const { all } = wasi();
    expect(all['wasi:filesystem/preopens'].getDirectories()).toEqual([]);
    expect(all['wasi:sockets/tcp-create-socket'].createTcpSocket('ipv4')).toEqual({ tag: 'err', val: 'access-denied' });
    expect(all['wasi:cli/terminal-stdout'].getTerminalStdout()).toBeUndefined();
    expect(all['wasi:cli/environment'].initialCwd()).toBeUndefined();
  });

  it('give arguments and environment as they were passed in, and nothing of the host’s [wasi.args]', () => {
    const { all } = wasi({ args: ['guest', 'zwö'], env: { GREETING: 'grüße' } });
    expect(all['wasi:cli/environment'].getArguments()).toEqual(['guest', 'zwö']);
    expect(all['wasi:cli/environment'].getEnvironment()).toEqual([['GREETING', 'grüße']]);
    expect(wasi().all['wasi:cli/environment'].getEnvironment()).toEqual([]);
  });

  it('end the guest with its code [wasi.exit]', () => {
    for (const [leave, code] of [
      [(all: Interfaces) => all['wasi:cli/exit'].exit({ tag: 'ok' }), 0],
      [(all: Interfaces) => all['wasi:cli/exit'].exit({ tag: 'err' }), 1],
      [(all: Interfaces) => all['wasi:cli/exit'].exitWithCode(7), 7],
    ] as const) {
      const guest = wasi();
      expect(() => leave(guest.all)).toThrow('ended');
      expect(guest.exitCode()).toBe(code);
    }
  });

  it('draw random bytes, as many as fit a guest [wasi.random]', () => {
    const { getRandomBytes, getRandomU64 } = wasi().all['wasi:random/random'];
    expect(getRandomBytes(0n)).toHaveLength(0);
    const drawn = getRandomBytes(100_000n);
    expect(new Set(drawn).size).toBe(256);
    expect(getRandomU64()).not.toBe(getRandomU64());
    expect(() => getRandomBytes(1_000_001n)).toThrow(WebAssembly.RuntimeError);
    expect(() => getRandomBytes(2n ** 63n)).toThrow('more than its memory can hold');
  });

  it('tell the time [wasi.clock]', () => {
    const { all } = wasi();
    const before = BigInt(Math.floor(Date.now() / 1000));
    const { seconds, nanoseconds } = all['wasi:clocks/wall-clock'].now();
    expect(seconds).toBeGreaterThanOrEqual(before);
    expect(seconds).toBeLessThanOrEqual(before + 60n);
    expect(nanoseconds).toBeLessThan(1_000_000_000);
    const { now } = all['wasi:clocks/monotonic-clock'];
    expect(now()).toBeLessThanOrEqual(now());
  });
});

describe('standard input', () => {
  it('is asked for when the guest reads, and blocks only where that is asked for [wasi.read]', async () => {
    const guest = wasi();
    const stdin = guest.all['wasi:cli/stdin'].getStdin();
    expect(text(stdin.read(10n))).toBe('');
    expect(guest.asked.map(({ maxBytes }) => maxBytes)).toEqual([10]);
    expect(text(stdin.read(10n))).toBe('');
    expect(guest.asked).toHaveLength(1);
    const blocked = stdin.blockingRead(4n);
    guest.give('hello');
    expect(text(await blocked)).toBe('hell');
    expect(text(stdin.read(10n))).toBe('o');
  });

  it('is closed at its end, and stays so [wasi.read]', async () => {
    const guest = wasi();
    const stdin = guest.all['wasi:cli/stdin'].getStdin();
    const blocked = stdin.blockingRead(4n);
    guest.give('');
    expect(text(await blocked)).toBe('closed');
    expect([text(stdin.read(1n)), text(await stdin.blockingRead(1n))]).toEqual(['closed', 'closed']);
    expect(stdin.subscribe().ready()).toBe(true);
    expect(guest.asked).toHaveLength(0);
  });

  it('is read in pieces of at most 1 MiB, whatever is asked for [wasi.read]', () => {
    const guest = wasi();
    guest.all['wasi:cli/stdin'].getStdin().read(2n ** 64n - 1n);
    expect(guest.asked.map(({ maxBytes }) => maxBytes)).toEqual([1024 * 1024]);
  });

  it('of no bytes is there at once [wasi.read]', async () => {
    const guest = wasi();
    const stdin = guest.all['wasi:cli/stdin'].getStdin();
    expect([text(stdin.read(0n)), text(await stdin.blockingRead(0n))]).toEqual(['', '']);
    expect(guest.asked).toHaveLength(0);
  });

  it('can be skipped and passed on to an output [wasi.read]', async () => {
    const guest = wasi();
    const stdin = guest.all['wasi:cli/stdin'].getStdin();
    const skipped = stdin.blockingSkip(2n);
    guest.give('abcdef');
    expect(await skipped).toEqual({ tag: 'ok', val: 2n });
    expect(stdin.skip(1n)).toEqual({ tag: 'ok', val: 1n });
    const stdout = guest.all['wasi:cli/stdout'].getStdout();
    expect(stdout.splice(stdin, 2n)).toEqual({ tag: 'ok', val: 2n });
    expect(await stdout.blockingSplice(stdin, 99n)).toEqual({ tag: 'ok', val: 1n });
    expect(guest.output).toEqual([
      ['stdout', 'de'],
      ['stdout', 'f'],
    ]);
  });
});

describe('standard output', () => {
  it('is written at once, in either way [wasi.write]', () => {
    const guest = wasi();
    const stdout = guest.all['wasi:cli/stdout'].getStdout();
    stdout.write(Buffer.from('one'));
    stdout.blockingWriteAndFlush(Buffer.from('two'));
    guest.all['wasi:cli/stderr'].getStderr().blockingWriteAndFlush(Buffer.from('three'));
    stdout.blockingWriteZeroesAndFlush(2n);
    expect(guest.output).toEqual([
      ['stdout', 'one'],
      ['stdout', 'two'],
      ['stderr', 'three'],
      ['stdout', '\0\0'],
    ]);
    expect([stdout.flush(), stdout.blockingFlush()]).toEqual([
      { tag: 'ok', val: undefined },
      { tag: 'ok', val: undefined },
    ]);
    expect(stdout.subscribe().ready()).toBe(true);
    expect(stdout.checkWrite()).toEqual({ tag: 'ok', val: 1_048_576n });
    expect(() => stdout.writeZeroes(2n ** 40n)).toThrow(WebAssembly.RuntimeError);
  });

  it('that cannot be written is an error with words [wasi.write]', () => {
    const stdout = wasi({ takesOutput: false }).all['wasi:cli/stdout'].getStdout();
    const failed = stdout.write(Buffer.from('x')) as { val: { tag: string; val: IoError } };
    expect(failed.val.tag).toBe('last-operation-failed');
    expect(failed.val.val).toBeInstanceOf(IoError);
    expect(failed.val.val.toDebugString()).toBe('cannot write to stdout');
  });
});

describe('waiting', () => {
  it('for a clock ends when its time has come, and not before [wasi.poll]', async () => {
    const clock = wasi().all['wasi:clocks/monotonic-clock'];
    const started = clock.now();
    const soon = clock.subscribeDuration(20n * MS);
    expect(soon.ready()).toBe(false);
    await soon.block();
    expect(clock.now() - started).toBeGreaterThanOrEqual(20n * MS);
    expect(soon.ready()).toBe(true);
    await clock.subscribeInstant(0n).block();
  });

  it('for several gives the places of those that are ready [wasi.poll]', async () => {
    const guest = wasi();
    const clock = guest.all['wasi:clocks/monotonic-clock'];
    const { poll } = guest.all['wasi:io/poll'];
    const never = clock.subscribeDuration(2n ** 63n);
    const stdin = guest.all['wasi:cli/stdin'].getStdin().subscribe();
    expect([...(await poll([never, clock.subscribeDuration(0n), stdin, clock.subscribeInstant(1n)]))]).toEqual([1, 3]);
    const waiting = poll([never, stdin]);
    await expect.poll(() => guest.asked.length).toBe(1);
    guest.give('x');
    expect([...(await waiting)]).toEqual([1]);
  });

  it('for nothing at all ends the guest [wasi.poll]', async () => {
    await expect(wasi().all['wasi:io/poll'].poll([])).rejects.toThrow(WebAssembly.RuntimeError);
  });

  it('that is over at once still lets the event loop run: a guest that polls does not starve it [wasi.poll]', async () => {
    const { all } = wasi();
    const ready = all['wasi:clocks/monotonic-clock'].subscribeDuration(0n);
    let turned = false;
    setTimeout(() => {
      turned = true;
    }, 1);
    for (let count = 0; count < 10_000 && !turned; count++) await all['wasi:io/poll'].poll([ready]);
    expect(turned).toBe(true);
  });
});

describe('a program of wasi-libc', () => {
  const { directory: componentCache, compiled } = useComponentCache();
  const program = async (name: string) => compiled(await adapted(await fixtureBytes(`c/test/${name}.wasm`)));

  it('has its arguments and environment, and nothing of the host’s [run.environment]', slow, async () => {
    const run = await runFixture(await program('env'), {
      args: ['one', 'zwö'],
      env: { GREETING: 'grüße' },
      componentCache,
    });
    expect(run.stdout).toBe('arg 0: guest\narg 1: one\narg 2: zwö\nenv: GREETING=grüße\n');
  });

  it('reads its stdin as it comes, and sees its end', slow, async () => {
    const guest = await program('echo-stdin');
    const long = `${'grüße 🚀 '.repeat(20_000)}\n`;
    const whole = await runFixture(guest, { stdin: () => Readable.from([Buffer.from(long)]), componentCache });
    expect(whole).toMatchObject({ exitCode: 0, stdout: long });
    const stdin = new PassThrough();
    const running = runFixture(guest, { stdin: () => stdin, componentCache });
    stdin.write('first ');
    setImmediate(() => stdin.end('second'));
    expect((await running).stdout).toBe('first second');
    expect(await runFixture(guest, { componentCache })).toMatchObject({ exitCode: 0, stdout: '' });
  });

  it('sleeps without holding its thread', slow, async () => {
    const SLEEP_NS = 30_000_000n;
    const guest = await compiled(
      await adapted(`(module
        (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "clock_time_get" (func $now (param i32 i64 i32) (result i32)))
        (memory (export "memory") 1)
        (func $time (result i64) (drop (call $now (i32.const 1) (i64.const 1) (i32.const 512))) (i64.load (i32.const 512)))
        (func (export "_start") (local $began i64)
          (local.set $began (call $time))
          (i32.store (i32.const 16) (i32.const 1))
          (i64.store (i32.const 24) (i64.const ${SLEEP_NS}))
          (if (call $poll (i32.const 0) (i32.const 128) (i32.const 1) (i32.const 256)) (then unreachable))
          (if (i64.lt_u (i64.sub (call $time) (local.get $began)) (i64.const ${SLEEP_NS})) (then unreachable))))`),
    );
    expect(await runFixture(guest, { componentCache })).toMatchObject({ reason: 'exit', exitCode: 0 });
  });

  it('that traps is reported with its frames', slow, async () => {
    const run = await runFixture(await program('trap'), { componentCache });
    expect(run.reason).toBe('trap');
    expect(run.stack).toContain('wasm://');
  });
});
