import { describe, expect, it } from 'vitest';
import { runFixture } from '../support/run-fixture.ts';
import { running } from '../support/small-modules.ts';
import { call, drop, WasmModule } from '../support/wasm-encoder.ts';

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
