import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { inEnoughTime } from '../support/enough-time.ts';
import { runFixture } from '../support/run-fixture.ts';
import { starvedMs } from '../support/starved.ts';
import { call, drop, i32Const, WasmModule } from '../support/wasm-encoder.ts';

const PROMISED_MS = 50;
/** For one run on a machine that is busy with other things. */
const HARD_MS = 10_000;
/** Long enough for a thread to start and the guest to get going. */
const TIMEOUT_MS = 1_500;
const RUNS = 5;

const deadlineOf = (ms: number) => ({
  reason: 'deadline',
  exitCode: null,
  message: `the guest ran longer than limits.timeout_ms = ${ms}`,
});

const median = (values: number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;

describe('at its deadline', () => {
  it(`an endless loop is ended within ${PROMISED_MS} ms, and what it wrote is there`, {
    timeout: 300_000,
  }, async () => {
    await inEnoughTime(TIMEOUT_MS, async (ms) => {
      const overruns: number[] = [];
      for (let count = 0; count < RUNS; count++) {
        const starvedBefore = starvedMs(process.pid);
        const run = await runFixture('c/test/spin.wasm', { limits: { timeout_ms: ms } });
        expect(run).toMatchObject({ ...deadlineOf(ms), stdout: 'before the loop\n' });
        const overrun = run.durations.totalMs - ms;
        expect(overrun).toBeLessThan(HARD_MS);
        expect(overrun).toBeGreaterThanOrEqual(-5);
        // What this thread waited for a processor is the machine's delay, not the host's.
        overruns.push(overrun - (starvedMs(process.pid) - starvedBefore));
      }
      expect(median(overruns)).toBeLessThanOrEqual(PROMISED_MS);
    });
  });

  const again = (body: readonly number[]) => [0x03, 0x40, ...body, 0x0c, 0x00, 0x0b];
  const noFunction = [0xd0, 0x70];
  const loops: readonly [what: string, body: readonly number[]][] = [
    ['memory.grow', [...i32Const(0), 0x40, 0, ...drop]],
    ['memory.fill', [...i32Const(0), ...i32Const(0), ...i32Const(65_535), 0xfc, 11, 0]],
    ['memory.fill of much', [...i32Const(0), ...i32Const(0), ...i32Const(16_777_216), 0xfc, 11, 0]],
    ['memory.copy of much', [...i32Const(0), ...i32Const(1), ...i32Const(16_000_000), 0xfc, 10, 0, 0]],
    ['table.grow', [...noFunction, ...i32Const(0), 0xfc, 15, 0, ...drop]],
    ['f32.nearest', [0x43, 0, 0, 0, 0, 0x90, ...drop]],
    ['a hostcall', [...i32Const(1), ...call(0), ...drop]],
    ['a hostcall that could wait', [...i32Const(0), ...call(1)]],
    ['another loop', again([])],
  ];
  it.each(loops)('an endless loop around %s is ended too', async (_what, body) => {
    const module = new WasmModule();
    module.importFunction('spear', 'cchat_close', ['i32'], ['i32']);
    module.importFunction('spear', 'sleep_ms', ['i32']);
    module.memory({ min: 256 });
    module.export('memory', 'memory', 0);
    module.table({ min: 1 });
    module.export('run', 'function', module.function([], [], again(body)));
    const run = await runFixture(module.encode(), { limits: { timeout_ms: 700 } });
    expect(run.reason).toBe('deadline');
    expect(run.durations.totalMs - 700).toBeLessThan(HARD_MS);
  });

  it.each(['sleep', 'wait', 'send'])('a guest that catches everything is ended in a %s', async (mode) => {
    await inEnoughTime(TIMEOUT_MS, async (ms) => {
      const run = await runFixture('c/test/catch-all.wasm', {
        limits: { timeout_ms: ms },
        args: [mode],
        backend: 'scripts/test/slow.json',
      });
      expect(run).toMatchObject({ ...deadlineOf(ms), stdout: 'before the loop\n' });
      expect(run.durations.totalMs - ms).toBeLessThan(HARD_MS);
    });
  });

  it('a callback that never returns is ended, and its send with it', async () => {
    await inEnoughTime(TIMEOUT_MS, async (ms) => {
      const run = await runFixture('c/test/callback.wasm', {
        limits: { timeout_ms: ms },
        args: ['spin'],
        backend: 'scripts/test/probe.json',
      });
      expect(run).toMatchObject({ ...deadlineOf(ms), chat: { sends: 1 } });
      expect(run.stdout).toContain('call 1:');
    });
  });

  it('a guest that polls without a pause is ended', async () => {
    const run = await runFixture('c/test/poll-spin.wasm', {
      limits: { timeout_ms: TIMEOUT_MS },
      args: ['both'],
      backend: 'scripts/test/slow.json',
    });
    expect(run).toMatchObject(deadlineOf(TIMEOUT_MS));
  });

  it('a guest that waits for stdin is ended', async () => {
    const stdin = new PassThrough();
    const run = await runFixture('c/test/echo-stdin.wasm', { limits: { timeout_ms: TIMEOUT_MS }, stdin: () => stdin });
    expect(run).toMatchObject(deadlineOf(TIMEOUT_MS));
    expect(stdin.destroyed).toBe(true);
  });
});

describe('when it is interrupted', () => {
  it('a guest ends at once, whatever it does', async () => {
    for (const [path, args] of [
      ['c/test/spin.wasm', []],
      ['c/test/catch-all.wasm', ['sleep']],
    ] as const) {
      const controller = new AbortController();
      const started = performance.now();
      setTimeout(() => controller.abort(), 700);
      const run = await runFixture(path, { args, signal: controller.signal });
      expect(run).toMatchObject({ reason: 'interrupted', exitCode: null, message: 'the guest was interrupted' });
      expect(performance.now() - started).toBeLessThan(700 + HARD_MS);
    }
  });

  it('a guest that catches everything cannot catch proc_exit either', async () => {
    const run = await runFixture('c/test/catch-all.wasm', { args: ['exit'] });
    expect(run).toMatchObject({ reason: 'exit', exitCode: 3, stdout: 'before the loop\n' });
  });
});
