import { describe, expect, it } from 'vitest';
import { OpenAiBackend } from '../../../../src/agent/chat/backends/openai.ts';
import type { CallName } from '../../../../src/runtime/abi/calls.ts';
import { compiledBackend, ProviderServer } from '../../../agent/chat/backends/provider-server.ts';
import { scripted } from '../../../support/chat-host.ts';
import { useComponentCache } from '../../../support/component-cache.ts';
import { buildComponent } from '../../../support/component-text.ts';
import { inEnoughTime } from '../../../support/enough-time.ts';
import { adapted, guestModule, running } from '../../../support/guest-text.ts';
import { inventory } from '../../../support/inventory.ts';
import { fixtureBytes, runFixture } from '../../../support/run-fixture.ts';
import { until } from '../../../support/until.ts';

const noProxy = { http: undefined, https: undefined, noProxy: '' };
/** A component is compiled first, on a machine that is busy with other things. */
const slow = { timeout: 120_000 };

const { directory, compiled } = useComponentCache();

/** A component that asks the model once, and ends when it has answered. */
const sends = () =>
  running(
    `(call $cchat-create (i32.const 64))
     (call $cchat-write-msg (i32.const 1000) (i32.const 128) (i32.const 4) (i32.const 132) (i32.const 2) (i32.const 64))
     (call $cchat-send (i32.const 1000) (i32.const 0) (i32.const 64))
     (if (i32.load8_u (i32.const 64)) (then unreachable))
     (call $cchat-recv (i32.load (i32.const 68)) (i32.const 64))
     (if (i32.load8_u (i32.const 64)) (then unreachable))
     (call $log (i32.const 2) (i32.load (i32.const 68)) (i32.load (i32.const 72)) (i32.const 96))`,
    {
      calls: ['cchat_create', 'cchat_write_msg', 'cchat_send', 'cchat_recv', 'log'],
      body: '(data (i32.const 128) "userhi")',
    },
  );

const ending = (body: string, calls: readonly CallName[] = []) => buildComponent(guestModule({ calls, body }));

describe('the end of a component', () => {
  it.each([
    [0, 0],
    [1, 1],
  ])('whose run gives %i is exit code %i [component.exit]', slow, async (given, code) => {
    const guest = await ending(`(func (export "run") (result i32) (i32.const ${given}))`);
    expect(await runFixture(guest)).toMatchObject({ reason: 'exit', exitCode: code, message: null });
  });

  it('by a trap is reported with its message and frames', slow, async () => {
    const guest = await running('(call $fails)', { body: '(func $fails unreachable)' });
    const run = await runFixture(guest);
    expect(run).toMatchObject({ reason: 'trap', exitCode: null });
    expect(run.message).toContain('unreachable');
    expect(run.stack.split('\n').length).toBeGreaterThanOrEqual(2);
    expect(run.stack).toContain('wasm://');
  });

  it('by a trap after a wait is the same', slow, async () => {
    const guest = await running('(call $sleep-ms (i32.const 5)) unreachable', { calls: ['sleep_ms'] });
    expect(await runFixture(guest)).toMatchObject({ reason: 'trap', hostcalls: { sleep_ms: 1 } });
  });

  it('by a pointer outside of its memory is a trap that says so [component.pointers]', slow, async () => {
    const guest = await running('(call $log (i32.const 2) (i32.const 65530) (i32.const 100) (i32.const 64))', {
      calls: ['log'],
    });
    const run = await runFixture(guest);
    expect(run).toMatchObject({ reason: 'trap', stdout: '' });
    expect(run.message).toContain('outside the guest memory');
    expect(run.stack).toContain('wasm://');
  });

  it('in the middle of a start function that waits says what to do [entry.start-section]', slow, async () => {
    const guest = await ending(
      '(func $early (call $sleep-ms (i32.const 1))) (start $early) (func (export "run") (result i32) (i32.const 0))',
      ['sleep_ms'],
    );
    const run = await runFixture(guest);
    expect(run).toMatchObject({ reason: 'module', exitCode: null });
    expect(run.message).toContain('the guest cannot be suspended');
  });

  it('by exit ends the guest with its code, not the host [wasi.exit]', slow, async () => {
    const exits = await compiled(await adapted(await fixtureBytes('c/test/exit.wasm')));
    const componentCache = directory;
    expect(await runFixture(exits, { args: ['0'], componentCache })).toMatchObject({ reason: 'exit', exitCode: 0 });
    // the adapter of preview 1 knows success and failure only
    expect(await runFixture(exits, { args: ['7'], componentCache })).toMatchObject({ reason: 'exit', exitCode: 1 });
    expect(await runFixture(exits, { args: ['3', 'return'], componentCache })).toMatchObject({
      reason: 'exit',
      exitCode: 1,
    });
  });
});

describe('a component that is not run', () => {
  it('because the signal was given before', slow, async () => {
    const guest = await running('(loop $again (br $again))');
    expect(await runFixture(guest, { signal: AbortSignal.abort() })).toMatchObject({ reason: 'interrupted' });
  });

  it('because it contains engine objects that cannot be bounded', slow, async () => {
    const arrays = `(type $bytes (array (mut i8))) (func $make (result (ref $bytes)) (array.new_default $bytes (i32.const 9)))`;
    const run = await runFixture(await running('(drop (call $make))', { body: arrays }));
    expect(run).toMatchObject({ reason: 'module', exitCode: null });
    const thrown = await runFixture(await running('(throw $oops)', { body: '(tag $oops)' }));
    expect(thrown).toMatchObject({ reason: 'module', exitCode: null });
  });
});

describe('what is reported of a component', () => {
  it('are its hostcalls by the names of the table, and the lane when asked for', slow, async () => {
    const backend = await scripted([{ reply: { content: 'hello' }, repeat: true }]);
    const run = await runFixture(await sends(), { backend, verbose: true });
    expect(run).toMatchObject({
      reason: 'exit',
      exitCode: 0,
      hostcalls: { cchat_create: 1, cchat_write_msg: 1, cchat_send: 1, cchat_recv: 1, log: 1 },
      chat: { sends: 1, iterations: 1 },
    });
    expect(run.stdout).toContain('"content":"hello"');
    expect(run.notices.some((text) => text.startsWith('component: fast lane'))).toBe(true);
  });
});

describe('the tools of a component', () => {
  it(
    'cannot be called by the host: without HAND_BACK the model gets an error, and the user a notice [component.tools]',
    slow,
    async () => {
      const backend = await scripted([
        { when: { role: 'user' }, reply: { tool_calls: [{ id: 'a', name: 'sum', arguments: {} }] } },
        { reply: { content: 'done' }, repeat: true },
      ]);
      const guest = await running(
        `(call $cchat-create (i32.const 64))
       (call $cchat-write-fn (i32.const 1000) (i32.const 128) (i32.const 14) (i32.const 64))
       (call $cchat-write-msg (i32.const 1000) (i32.const 256) (i32.const 4) (i32.const 260) (i32.const 2) (i32.const 64))
       (call $cchat-send (i32.const 1000) (i32.const 2) (i32.const 64))
       (if (i32.load8_u (i32.const 64)) (then unreachable))`,
        {
          calls: ['cchat_create', 'cchat_write_fn', 'cchat_write_msg', 'cchat_send'],
          body: '(data (i32.const 128) "{\\22name\\22:\\22sum\\22}") (data (i32.const 256) "userhi")',
        },
      );
      const run = await runFixture(guest, { backend });
      expect(run).toMatchObject({ reason: 'exit', exitCode: 0, chat: { sends: 1, iterations: 2 } });
      expect(backend.requests[1]?.messages.at(-1)).toMatchObject({ content: expect.stringContaining('tool rc: -5') });
      expect(run.notices.filter((text) => text.includes('HAND_BACK'))).toHaveLength(1);
    },
  );
});

describe('a component that waits', () => {
  it('is ended there, and takes its request with it', slow, async () => {
    const provider = await ProviderServer.start(() => {}); // never answers
    const controller = new AbortController();
    const backend = new OpenAiBackend(compiledBackend(provider.baseUrl), { proxy: noProxy, timing: undefined });
    try {
      const running = runFixture(await sends(), { backend, signal: controller.signal });
      await provider.until(() => provider.requests.length === 1);
      controller.abort();
      expect(await running).toMatchObject({ reason: 'interrupted', exitCode: null });
      await provider.until(() => provider.openSockets === 0);
    } finally {
      await provider.stop();
    }
  });

  it('by polling without a pause gets its answer all the same', slow, async () => {
    const backend = await scripted([{ reply: { content: 'polled for' }, repeat: true }]);
    const guest = await running(
      `(call $cchat-create (i32.const 64))
       (call $spear-fd-ctl (i32.const 1000) (i32.const 1) (i32.const 128) (i32.const 22) (i32.const 64))
       (if (i32.load8_u (i32.const 64)) (then unreachable))
       (call $cchat-send (i32.const 1000) (i32.const 0) (i32.const 64))
       (loop $again
         (call $cchat-recv (i32.const 1001) (i32.const 64))
         (br_if $again (i32.load8_u (i32.const 64))))
       (call $log (i32.const 2) (i32.load (i32.const 68)) (i32.load (i32.const 72)) (i32.const 96))`,
      {
        calls: ['cchat_create', 'spear_fd_ctl', 'cchat_send', 'cchat_recv', 'log'],
        body: '(data (i32.const 128) "{\\22set\\22:[\\22O_NONBLOCK\\22]}")',
      },
    );
    const answer = backend.hold();
    const polling = runFixture(guest, { backend });
    await expect.poll(() => backend.requests.length, { timeout: 60_000 }).toBe(1);
    answer();
    const run = await polling;
    expect(run).toMatchObject({ reason: 'exit', exitCode: 0 });
    expect(run.stdout).toContain('polled for');
    expect(run.hostcalls.cchat_recv).toBeGreaterThan(1);
  });

  it('cannot catch its end, whatever it catches', slow, async () => {
    const guest = await running(
      `(block $caught (try_table (catch_all $caught) (call $sleep-ms (i32.const 600000))))
       (loop $again (call $sleep-ms (i32.const 600000)) (br $again))`,
      { calls: ['sleep_ms'] },
    );
    await compiled(guest);
    await inEnoughTime(2_000, async (ms) => {
      const run = await runFixture(guest, { limits: { timeout_ms: ms }, componentCache: directory });
      expect(run).toMatchObject({ reason: 'deadline', hostcalls: {} });
      expect(run.durations.runMs).toBeGreaterThan(100);
    });
  });

  it('does so beside others: all send before any is answered', slow, async () => {
    const GUESTS = 4;
    const backend = await scripted([{ reply: { content: 'at last' }, repeat: true }]);
    const answer = backend.hold();
    const guest = await sends();
    const runs = Array.from({ length: GUESTS }, () => runFixture(guest, { backend }));
    await expect.poll(() => backend.requests.length, { timeout: 60_000 }).toBe(GUESTS);
    answer();
    for (const run of await Promise.all(runs)) {
      expect(run).toMatchObject({ reason: 'exit', exitCode: 0 });
      expect(run.stdout).toContain('at last');
    }
  });
});

it('components that end in every way leave no thread, timer, file or listener behind', slow, async () => {
  const ROUNDS = 4;
  const ways: readonly [guest: Uint8Array, reason: string, limits: { timeout_ms?: number }][] = [
    [await compiled(await running('')), 'exit', {}],
    [await compiled(await running('unreachable')), 'trap', {}],
    [
      await compiled(await running('(call $sleep-ms (i32.const 600000))', { calls: ['sleep_ms'] })),
      'deadline',
      { timeout_ms: 2_000 },
    ],
  ];
  const inEveryWay = () =>
    Promise.all(
      ways.map(async ([guest, reason, limits]) => {
        const run = await runFixture(guest, { componentCache: directory, limits });
        expect(run.reason).toBe(reason);
      }),
    );
  await inEveryWay();
  const before = inventory();
  for (let round = 0; round < ROUNDS; round++) await inEveryWay();
  await until(() => JSON.stringify(inventory()) === JSON.stringify(before), 'everything to be gone').catch(() => {});
  expect(inventory()).toEqual(before);
});
