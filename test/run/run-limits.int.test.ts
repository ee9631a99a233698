import { describe, expect, it } from 'vitest';
import { runFixture } from '../support/run-fixture.ts';
import { running } from '../support/small-modules.ts';
import { call, drop, encodeSections, leb, section, WasmModule } from '../support/wasm-encoder.ts';

const MIB = 1024 * 1024;

describe('limits of a run', () => {
  it('memory_bytes: memory.grow fails beyond it, and the guest can go on [run.limits]', async () => {
    const run = await runFixture('c/test/memory-hog.wasm', { limits: { memory_bytes: 16 * MIB } });
    expect(run).toMatchObject({ reason: 'exit', exitCode: 0 });
    const got = Number(/^got (\d+) MiB\n$/.exec(run.stdout)?.[1]);
    expect(got).toBeGreaterThanOrEqual(12);
    expect(got).toBeLessThan(16);
  });

  it('memory_bytes: a module that starts with more is refused with both numbers [run.limits]', async () => {
    const module = new WasmModule();
    module.memory({ min: 33 });
    module.export('memory', 'memory', 0);
    module.export('run', 'function', module.function([], [], []));
    expect(await runFixture(module.encode(), { limits: { memory_bytes: 2 * MIB } })).toMatchObject({
      reason: 'module',
      message: 'the module starts with 2162688 bytes of memory, limits.memory_bytes is 2097152',
    });
  });

  it('max_fds and max_sessions: EMFILE, said once, and closing makes room [run.limits]', async () => {
    const lines = (count: number) => `opened ${count}\nthen -24\nclose 0\na new number: yes\nstale -9\nclose twice 0\n`;
    const epolls = await runFixture('c/test/fds.wasm', { args: ['epolls'], limits: { max_fds: 10 } });
    expect(epolls).toMatchObject({ exitCode: 0, stdout: lines(10) });
    expect(epolls.notices).toEqual(['the guest has limits.max_fds = 10 descriptors open: EMFILE']);
    const sessions = await runFixture('c/test/fds.wasm', { args: ['sessions'], limits: { max_sessions: 7 } });
    expect(sessions).toMatchObject({ exitCode: 0, stdout: lines(7) });
    expect(sessions.notices).toEqual(['the guest has limits.max_sessions = 7 chat sessions open: EMFILE']);
    const byDefault = await runFixture('c/test/fds.wasm', { args: ['epolls'] });
    expect(byDefault.stdout).toContain('opened 1024\n');
  });

  it('a notice is given once, however often its cause comes [run.limits]', async () => {
    const create = [...call(0), ...drop];
    const bytes = running([...create, ...create, ...create, ...create, ...call(0)], (module) => {
      module.importFunction('spear', 'cchat_create', [], ['i32']);
    });
    const run = await runFixture(bytes, { limits: { max_sessions: 1 } });
    expect(run).toMatchObject({ exitCode: -24, hostcalls: { cchat_create: 5 } });
    expect(run.notices).toHaveLength(1);
  });

  it('log_bytes_per_second: lines beyond it are dropped, counted and said [run.limits]', async () => {
    const run = await runFixture('c/test/loud.wasm', { args: ['20000'], limits: { log_bytes_per_second: 4096 } });
    expect(run).toMatchObject({ reason: 'exit', exitCode: 0 });
    const lines = run.stdout.split('\n').filter((line) => line.startsWith('line '));
    expect(run.stdout).toContain('logged 20000, refused 0\n');
    expect(lines.length + run.droppedLogLines).toBe(20_000);
    expect(run.droppedLogLines).toBeGreaterThan(15_000);
    expect(run.notices).toEqual(['the guest logs more than limits.log_bytes_per_second = 4096: lines are dropped']);
  });

  it('log_bytes_per_second: lines below the level that is written are free [run.limits]', async () => {
    const run = await runFixture('c/test/loud.wasm', { args: ['20000', '0'], limits: { log_bytes_per_second: 4096 } });
    expect(run).toMatchObject({ droppedLogLines: 0, notices: [], stdout: 'logged 20000, refused 0\n' });
  });
});

describe('objects of the engine that a guest makes', () => {
  const runExport = [1, 3, 0x72, 0x75, 0x6e, 0, 0];

  it('as exceptions that it keeps end it when they take too much', { timeout: 60_000 }, async () => {
    const VALUES = 900;
    const TABLE = 200_000;
    const thrown = Array.from({ length: VALUES }, () => [0x42, 1]).flat();
    // for (i = 0;; i++) table[i] = the exception, with 900 values, that was just thrown
    const body = [
      ...[1, 1, 0x7f, 0x03, 0x40, 0x20, 0, 0x02, 0x69, 0x1f, 0x40, 1, 0x03, 0],
      ...thrown,
      ...[0x08, 0, 0x0b, 0x00, 0x0b, 0x26, 0, 0x20, 0, 0x41, 1, 0x6a, 0x21, 0, 0x0c, 0, 0x0b, 0x0b],
    ];
    const TAGS = 13;
    const bytes = encodeSections([
      [section.type, [2, 0x60, ...leb(VALUES), ...Array(VALUES).fill(0x7e), 0, 0x60, 0, 0]],
      [section.function, [1, 1]],
      [section.table, [1, 0x69, 0, ...leb(TABLE)]],
      [TAGS, [1, 0, 0]],
      [section.export, runExport],
      [section.code, [1, ...leb(body.length), ...body]],
    ]);
    const run = await runFixture(bytes);
    expect(run).toMatchObject({
      reason: 'memory',
      exitCode: null,
      message: 'the JavaScript heap of the guest thread exceeded 512 MiB',
    });
  });

  it('as arrays or structs have no limit, so that a module with them is refused', async () => {
    // a loop that makes arrays of 100000 numbers and keeps them all
    const body = [
      1, 1, 0x63, 1, 0x03, 0x40, 0x20, 0, 0x41, 0xa0, 0x8d, 0x06, 0xfb, 0x07, 0, 0xfb, 0x00, 1, 0x21, 0, 0x0c, 0, 0x0b,
      0x0b,
    ];
    const bytes = encodeSections([
      [section.type, [2, 0x4e, 2, 0x5e, 0x7e, 0x01, 0x5f, 2, 0x63, 1, 1, 0x63, 0, 1, 0x60, 0, 0]],
      [section.function, [1, 2]],
      [section.export, runExport],
      [section.code, [1, ...leb(body.length), ...body]],
    ]);
    expect(WebAssembly.validate(bytes)).toBe(true);
    const run = await runFixture(bytes, { limits: { timeout_ms: 2_000 } });
    expect(run.reason).toBe('module');
    expect(run.message).toContain('struct or array types');
  });
});
