import { describe, expect, it } from 'vitest';
import { useComponentCache } from '../../../support/component-cache.ts';
import { adapted, running } from '../../../support/guest-text.ts';
import { fixtureBytes, runFixture } from '../../../support/run-fixture.ts';

const MIB = 1024 * 1024;
/** For one run on a machine that is busy with other things: it is compiled first. */
const slow = { timeout: 120_000 };

describe('limits of a component', () => {
  it('memory_bytes: memory.grow fails beyond it, and the guest can go on [run.limits]', slow, async () => {
    const run = await runFixture(await adapted(await fixtureBytes('c/test/memory-hog.wasm')), {
      limits: { memory_bytes: 16 * MIB },
    });
    expect(run).toMatchObject({ reason: 'exit', exitCode: 0 });
    const got = Number(/^got (\d+) MiB\n$/.exec(run.stdout)?.[1]);
    expect(got).toBeGreaterThanOrEqual(4); // its memory and the adapter's share the limit
    expect(got).toBeLessThan(16);
  });

  it('memory_bytes: a guest that wants 1 GiB gets what the limit allows [run.limits]', slow, async () => {
    const asks = `(if (i32.ne (memory.grow (i32.const 16384)) (i32.const -1)) (then unreachable))
      (if (i32.eq (memory.grow (i32.const 64)) (i32.const -1)) (then unreachable))`;
    expect(await runFixture(await running(asks), { limits: { memory_bytes: 64 * MIB } })).toMatchObject({
      reason: 'exit',
      exitCode: 0,
    });
  });

  it('memory_bytes: a guest that has no room for a result ends, and says so [run.limits]', slow, async () => {
    const guest = await running(
      `(call $cchat-create (i32.const 64))
       (call $cchat-ctl (i32.const 1000) (i32.const 1) (i32.const 128) (i32.const 31) (i32.const 64))
       (loop $again (call $spear-fd-ctl (i32.const 1000) (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 64)) (br $again))`,
      {
        calls: ['cchat_create', 'cchat_ctl', 'spear_fd_ctl'],
        body: '(data (i32.const 128) "{\\22key\\22:\\22user\\22,\\22value\\22:\\22me\\22}")',
      },
    );
    const run = await runFixture(guest, { limits: { memory_bytes: 2 * MIB } });
    expect(run).toMatchObject({ reason: 'trap', exitCode: null });
    expect(run.message).toContain('outside the guest memory');
  });

  it('max_fds: 100,000 descriptors are EMFILE beyond the limit, said once [run.limits]', slow, async () => {
    const guest = await running(
      `(loop $again
         (call $spear-epoll-create (i32.const 64))
         (global.set $opened (i32.add (global.get $opened) (i32.eqz (i32.load8_u (i32.const 64)))))
         (br_if $again (i32.lt_u (global.tee_count) (i32.const 100000))))
       (if (i32.ne (global.get $opened) (i32.const 1024)) (then unreachable))`.replace(
        '(global.tee_count)',
        '(block (result i32) (global.set $tried (i32.add (global.get $tried) (i32.const 1))) (global.get $tried))',
      ),
      {
        calls: ['spear_epoll_create'],
        body: '(global $opened (mut i32) (i32.const 0)) (global $tried (mut i32) (i32.const 0))',
      },
    );
    const run = await runFixture(guest);
    expect(run).toMatchObject({ reason: 'exit', exitCode: 0, hostcalls: { spear_epoll_create: 100_000 } });
    expect(run.notices.filter((text) => text.includes('max_fds'))).toEqual([
      'the guest has limits.max_fds = 1024 descriptors open: EMFILE',
    ]);
  });

  it('a recursion without end is a trap, reported with its frames [run.limits]', slow, async () => {
    const guest = await running('(call $deeper)', { body: '(func $deeper (call $deeper))' });
    const run = await runFixture(guest);
    expect(run).toMatchObject({ reason: 'trap', exitCode: null });
    expect(run.message).toMatch(/call stack/i);
    expect(run.stack).toContain('wasm://');
  });

  it('log_bytes_per_second: lines beyond it are dropped, counted and said [run.limits]', slow, async () => {
    const guest = await running(
      `(loop $again
         (call $log (i32.const 2) (i32.const 128) (i32.const 5) (i32.const 64))
         (global.set $logged (i32.add (global.get $logged) (i32.const 1)))
         (br_if $again (i32.lt_u (global.get $logged) (i32.const 20000))))`,
      { calls: ['log'], body: '(global $logged (mut i32) (i32.const 0)) (data (i32.const 128) "hello")' },
    );
    const run = await runFixture(guest, { limits: { log_bytes_per_second: 4096 } });
    expect(run).toMatchObject({ reason: 'exit', exitCode: 0, hostcalls: { log: 20_000 } });
    expect(run.stdout.split('\n').length - 1 + run.droppedLogLines).toBe(20_000);
    expect(run.droppedLogLines).toBeGreaterThan(15_000);
  });
});

// Side by side: each does nothing but wait for its own deadline.
describe.concurrent('at its deadline', () => {
  /** Long enough for its thread to start and the component to get going beside busy neighbours. */
  const TIMEOUT_MS = 10_000;
  const { directory: componentCache, compiled } = useComponentCache();
  const options = { limits: { timeout_ms: TIMEOUT_MS }, componentCache };

  it('a component that spins is ended, and what it wrote is there', slow, async () => {
    const guest = await compiled(await adapted(await fixtureBytes('c/test/spin.wasm')));
    const run = await runFixture(guest, options);
    expect(run).toMatchObject({
      reason: 'deadline',
      exitCode: null,
      message: `the guest ran longer than limits.timeout_ms = ${TIMEOUT_MS}`,
      stdout: 'before the loop\n',
    });
  });

  it('a component that prints without end is ended, and what it wrote is there', slow, async () => {
    const print = `(loop $again
      (drop (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 32))) (br $again))`;
    const guest = await compiled(
      await adapted(`(module
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 16) "\\40\\00\\00\\00\\06\\00\\00\\00") (data (i32.const 64) "again\\n")
        (func (export "_start") ${print}))`),
    );
    const run = await runFixture(guest, options);
    expect(run.reason).toBe('deadline');
    expect(run.stdout.startsWith('again\nagain\n')).toBe(true);
  });

  it('a component that makes hostcalls without end is ended', slow, async () => {
    for (const [name, call] of [
      ['time_now_ms', '(drop (call $time-now-ms))'],
      ['sleep_ms', '(call $sleep-ms (i32.const 0))'],
    ] as const) {
      const guest = await compiled(await running(`(loop $again ${call} (br $again))`, { calls: [name] }));
      const run = await runFixture(guest, { componentCache, limits: { timeout_ms: 4_000 } });
      expect([name, run.reason]).toEqual([name, 'deadline']);
      expect(run.durations.runMs).toBeGreaterThan(100);
    }
  });
});
