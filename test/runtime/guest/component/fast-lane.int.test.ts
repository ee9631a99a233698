import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import { describe, expect, it } from 'vitest';
import type { CallName } from '../../../../src/runtime/abi/calls.ts';
import { errnoOrdinal } from '../../../../src/runtime/abi/wit.ts';
import { instantiateInFastLane } from '../../../../src/runtime/guest/component/fast-lane.ts';
import { hostcalls } from '../../../../src/runtime/guest/hostcalls/all.ts';
import type { GuestState } from '../../../../src/runtime/guest/hostcalls/guest-state.ts';
import { namedCounts, newCounters } from '../../../../src/runtime/host/guest-counters.ts';
import { type GuestText, guestModule } from '../../../support/guest-text.ts';
import type { TestGuestOptions } from '../../../support/test-guest.ts';
import { useGuests } from '../../../support/use-guest.ts';

const openGuest = useGuests();

/** Where the modules of these tests have their return area, and a text. */
const AREA = 64;
const TEXT = 128;

type Exports = Record<string, WebAssembly.GuestFunction> & { memory: WebAssembly.Memory };

/** A core module as a component has it, on the imports of the fast lane alone. */
async function lane(text: GuestText, options: TestGuestOptions = {}) {
  const { state, output, backend } = await openGuest(options);
  const counts = newCounters(1);
  const module = new WebAssembly.Module(await parse(guestModule(text)));
  const imports: Record<string, Record<string, unknown>> = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    imports[from] ??= {};
    imports[from][name] = () => {
      throw new Error('the guest reached the glue');
    };
  }
  const { exports } = instantiateInFastLane({ table: hostcalls, guest: state, counts }, module, imports);
  const memory = () => Buffer.from((exports as Exports).memory.buffer);
  return { exports: exports as Exports, state, output, backend, memory, counts: () => namedCounts(counts) };
}

/** `run` makes the call with these parameters. */
const calling = (call: CallName, args: string, more: Partial<GuestText> = {}): GuestText => ({
  ...more,
  calls: [call, ...(more.calls ?? [])],
  body: `${more.body ?? ''} (func (export "run") (call $${call.replaceAll('_', '-')} ${args}))`,
});
const consts = (...values: number[]) => values.map((value) => `(i32.const ${value})`).join(' ');

/** Descriptor 1000 is an epoll in which so many sessions are ready. */
function readySessions(state: GuestState, count: number): number[] {
  const epfd = hostcalls.spear_epoll_create(state) as number;
  const fds = Array.from({ length: count }, () => hostcalls.cchat_create(state) as number);
  for (const fd of fds) hostcalls.spear_epoll_ctl(state, epfd, 1, fd, 4);
  return fds;
}

const run = ({ exports }: { exports: Exports }) => WebAssembly.promising(exports.run as WebAssembly.GuestFunction)();

describe('a result', () => {
  it('of nothing or an errno takes two bytes', async () => {
    const guest = await lane(calling('cchat_close', consts(4242, AREA)));
    guest.memory().fill(0xee, AREA, AREA + 8);
    await run(guest);
    expect([...guest.memory().subarray(AREA, AREA + 4)]).toEqual([1, errnoOrdinal.EBADF, 0xee, 0xee]);
    const fine = await lane(calling('log', consts(2, TEXT, 2, AREA + 1)));
    fine.memory().write('hi', TEXT);
    fine.memory().fill(0xee, AREA, AREA + 4);
    await run(fine);
    expect([...fine.memory().subarray(AREA, AREA + 4)]).toEqual([0xee, 0, 0xee, 0xee]);
    expect(fine.output).toEqual([['stdout', 'hi\n']]);
  });

  it('of a descriptor or an errno has its payload at 4', async () => {
    const guest = await lane(calling('cchat_create', consts(AREA)), { limits: { max_sessions: 1 } });
    await run(guest);
    expect([guest.memory().readUInt8(AREA), guest.memory().readInt32LE(AREA + 4)]).toEqual([0, 1000]);
    await run(guest);
    expect([guest.memory().readUInt8(AREA), guest.memory().readUInt8(AREA + 4)]).toEqual([1, errnoOrdinal.EMFILE]);
  });

  it('of a text is memory of the guest’s own allocator', async () => {
    const guest = await lane(calling('spear_fd_ctl', consts(1000, 3, 0, 0, AREA)));
    hostcalls.spear_epoll_create(guest.state);
    await run(guest);
    const [ptr, length] = [guest.memory().readUInt32LE(AREA + 4), guest.memory().readUInt32LE(AREA + 8)];
    expect(ptr).toBeGreaterThanOrEqual(4096);
    expect(guest.memory().toString('utf8', ptr, ptr + length)).toBe('{"kind":"Epoll"}');
  });

  it('of a command without an answer is an empty text, and needs no memory', async () => {
    const none = `(func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)`;
    const guest = await lane(calling('spear_fd_ctl', consts(1000, 6, 0, 0, AREA), { allocator: none }));
    hostcalls.spear_epoll_create(guest.state);
    guest.memory().fill(0xee, AREA, AREA + 12);
    await run(guest);
    expect(guest.memory().readUInt8(AREA)).toBe(0);
    expect(guest.memory().readUInt32LE(AREA + 8)).toBe(0);
    expect(guest.state.fds.size).toBe(0);
  });

  it('that is a number or a bool needs no memory', async () => {
    const guest = await lane({
      calls: ['spear_abi_version', 'spear_feature', 'random_i64'],
      body: `(data (i32.const ${TEXT}) "cchat")
        (func (export "version") (result i32) (call $spear-abi-version))
        (func (export "feature") (param i32) (result i32) (call $spear-feature (i32.const ${TEXT}) (local.get 0)))
        (func (export "random") (result i64) (call $random-i64))`,
    });
    expect(guest.exports.version?.()).toBe(0x0001_0001);
    expect([guest.exports.feature?.(5), guest.exports.feature?.(4)]).toEqual([1, 0]);
    expect(typeof guest.exports.random?.()).toBe('bigint');
    expect(guest.counts()).toEqual({ spear_abi_version: 1, spear_feature: 2, random_i64: 1 });
  });
});

describe('the order of checks', () => {
  it('is the command, then the descriptor: an unknown command is EINVAL on any fd [abi.check-order]', async () => {
    for (const call of ['cchat_ctl', 'spear_fd_ctl'] as const) {
      const guest = await lane(calling(call, consts(4242, 99, 0, 0, AREA)));
      await run(guest);
      expect([guest.memory().readUInt8(AREA), guest.memory().readUInt8(AREA + 4)]).toEqual([1, errnoOrdinal.EINVAL]);
    }
  });

  it('comes after the pointers: one that leaves the memory ends the guest [component.pointers]', async () => {
    const guest = await lane(calling('spear_fd_ctl', consts(4242, 99, 65_530, 100, AREA)));
    await expect(run(guest)).rejects.toThrow('outside the guest memory');
  });
});

describe('a guest that passes what is not in its memory is ended by a trap', () => {
  const catching = (call: string) => `
    (tag $any)
    (func (export "run") (block $caught (try_table (catch_all $caught) ${call}) (return)) (unreachable))`;

  it.each<[string, CallName, string]>([
    ['a text that ends outside', 'log', consts(2, 65_530, 7, AREA)],
    ['a text that starts outside', 'log', consts(2, 70_000, 0, AREA)],
    ['a text that would wrap around', 'log', consts(2, -16, 32, AREA)],
    ['a text of 4 GiB', 'log', consts(2, 0, -1, AREA)],
    ['a second text outside', 'cchat_write_msg', consts(1000, 0, 4, 65_536, 1, AREA)],
    ['a return area at the end', 'cchat_create', consts(65_532)],
    ['a return area far away', 'cchat_create', consts(-8)],
    ['a return area that is not aligned', 'cchat_create', consts(AREA + 2)],
    ['a return area of a text that is not aligned', 'cchat_recv', consts(1000, AREA + 1)],
    ['a return area of a text at the end', 'cchat_recv', consts(1000, 65_528)],
    ['the last byte as return area', 'cchat_close', consts(4242, 65_535)],
    ['a return area of a call that is not there', 'rtasr_create', consts(65_536)],
  ])('%s [component.pointers]', async (_, call, args) => {
    const name = call.replaceAll('_', '-');
    const guest = await lane({ calls: [call], body: catching(`(call $${name} ${args})`) });
    const error = await run(guest).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(WebAssembly.RuntimeError);
    expect((error as Error).message).toMatch(/outside the guest memory|is not aligned/);
  });

  it('and nothing was done for the pointers that could be seen before [component.pointers]', async () => {
    const guest = await lane(calling('cchat_write_msg', consts(1000, 0, 4, 65_536, 1, AREA)));
    await expect(run(guest)).rejects.toThrow('outside the guest memory');
    expect(guest.state.chatBytes).toBe(0);
  });
});

describe('cabi_realloc', () => {
  const giving = (instructions: string) =>
    `(func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) ${instructions})`;
  const kind = (allocator: string, more: Partial<GuestText> = {}) =>
    calling('spear_fd_ctl', consts(1000, 3, 0, 0, AREA), { ...more, allocator });

  async function withEpoll(text: GuestText) {
    const guest = await lane(text);
    hostcalls.spear_epoll_create(guest.state);
    return guest;
  }

  it('may grow the memory: the result and its area are in the new one', async () => {
    const guest = await withEpoll(kind(giving('(drop (memory.grow (i32.const 4))) (i32.const 200000)'), { pages: 1 }));
    await run(guest);
    const [ptr, length] = [guest.memory().readUInt32LE(AREA + 4), guest.memory().readUInt32LE(AREA + 8)];
    expect([ptr, guest.memory().toString('utf8', ptr, ptr + length)]).toEqual([200_000, '{"kind":"Epoll"}']);
  });

  it.each([
    ['an address outside', giving('(i32.const 65530)'), 'outside the guest memory'],
    ['a negative address', giving('(i32.const -4)'), 'outside the guest memory'],
    ['an address beyond what it grew to', giving('(drop (memory.grow (i32.const 1))) (i32.const 131070)'), 'outside'],
  ])('that gives %s ends the guest', async (_, allocator, message) => {
    const guest = await withEpoll(kind(allocator));
    await expect(run(guest)).rejects.toThrow(message);
    expect(guest.memory().readUInt32LE(AREA + 8)).toBe(0);
  });

  it('that gives an unaligned address for records ends the guest', async () => {
    const text = calling('spear_epoll_wait', consts(1000, 0, AREA), { allocator: giving('(i32.const 4098)') });
    const guest = await lane(text);
    readySessions(guest.state, 1);
    await expect(run(guest)).rejects.toThrow('not aligned to 4');
  });

  it('may grow the memory after a wait as well', async () => {
    const growing = giving('(drop (memory.grow (i32.const 4))) (i32.const 200000)');
    const guest = await lane(calling('spear_epoll_wait', consts(1000, -1, AREA), { allocator: growing }));
    const epfd = hostcalls.spear_epoll_create(guest.state) as number;
    const session = hostcalls.cchat_create(guest.state) as number;
    hostcalls.spear_fd_ctl(guest.state, session, 1, '{"set":["O_NONBLOCK"]}');
    const answer = guest.backend.hold();
    const response = hostcalls.cchat_send(guest.state, session, 0) as number;
    hostcalls.spear_epoll_ctl(guest.state, epfd, 1, response, 1);
    const waiting = run(guest);
    answer();
    await waiting;
    expect([guest.memory().readUInt32LE(AREA + 4), guest.memory().readUInt32LE(AREA + 8)]).toEqual([200_000, 1]);
    expect([guest.memory().readInt32LE(200_000), guest.memory().readInt32LE(200_004)]).toEqual([response, 1]);
  });

  it('that traps ends the guest with its own trap', async () => {
    await expect(run(await withEpoll(kind(giving('unreachable'))))).rejects.toThrow('unreachable');
  });

  it('may make hostcalls itself', async () => {
    const nested = giving(`(call $spear-epoll-create (i32.const 256)) (i32.const 4096)`);
    const guest = await withEpoll(kind(nested, { calls: ['spear_epoll_create'] }));
    await run(guest);
    expect(guest.memory().readUInt8(AREA)).toBe(0);
    expect(guest.state.fds.size).toBe(2);
  });
});

describe('a text beyond its limit', () => {
  it('is not decoded, and is EMSGSIZE or EINVAL as in a core module', async () => {
    const long = await lane(calling('log', consts(2, 0, 16_385, AREA)));
    await run(long);
    expect([...long.memory().subarray(AREA, AREA + 2)]).toEqual([1, errnoOrdinal.EINVAL]);
  });
});

describe('the records of an epoll', () => {
  it('are all that are ready, eight bytes each', async () => {
    const guest = await lane(calling('spear_epoll_wait', consts(1000, 0, AREA)));
    const fds = readySessions(guest.state, 16);
    await run(guest);
    const [ptr, count] = [guest.memory().readUInt32LE(AREA + 4), guest.memory().readUInt32LE(AREA + 8)];
    const records = Array.from({ length: count }, (_, index) => [
      guest.memory().readInt32LE(ptr + index * 8),
      guest.memory().readInt32LE(ptr + index * 8 + 4),
    ]);
    expect(records).toEqual(fds.map((fd) => [fd, 4]));
  });
});

describe('what the lane replaces', () => {
  it('is spear:host alone, and what it does not know stays as it was', async () => {
    const { state } = await openGuest();
    const module = new WebAssembly.Module(
      await parse(`(module
        (import "spear:host/log@1.7.0" "log" (func $log (param i32 i32 i32 i32)))
        (import "spear:host/log@1.7.0" "shout" (func $shout))
        (import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0))
        (func (export "run") (call $log (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 16)) (call $shout) (call $exit (i32.const 1))))`),
    );
    const reached: string[] = [];
    const note = (name: string) => () => void reached.push(name);
    const counts = newCounters(1);
    const { exports } = instantiateInFastLane({ table: hostcalls, guest: state, counts }, module, {
      'spear:host/log@1.7.0': { log: note('log'), shout: note('shout') },
      'wasi:cli/exit@0.2.0': { exit: note('exit') },
    });
    (exports.run as WebAssembly.GuestFunction)();
    expect(reached).toEqual(['shout', 'exit']);
    expect(namedCounts(counts)).toEqual({ log: 1 });
  });

  it('is nothing in a module whose memory it cannot know', async () => {
    const { state } = await openGuest();
    const module = new WebAssembly.Module(
      await parse(`(module (import "spear:host/log@1.0.0" "log" (func $log (param i32 i32 i32 i32)))
        (memory (export "another") 1)
        (func (export "run") (call $log (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 16))))`),
    );
    let glue = 0;
    const { exports } = instantiateInFastLane({ table: hostcalls, guest: state, counts: newCounters(1) }, module, {
      'spear:host/log@1.0.0': { log: () => void glue++ },
    });
    (exports.run as WebAssembly.GuestFunction)();
    expect(glue).toBe(1);
  });

  it('works in memory and with an allocator that the module imports', async () => {
    const { state } = await openGuest();
    const memory = new WebAssembly.Memory({ initial: 1 });
    const module = new WebAssembly.Module(
      await parse(`(module
        (import "env" "memory" (memory 1))
        (import "env" "cabi_realloc" (func (param i32 i32 i32 i32) (result i32)))
        (import "spear:host/poll@1.0.0" "spear-fd-ctl" (func $ctl (param i32 i32 i32 i32 i32)))
        (import "spear:host/poll@1.0.0" "spear-epoll-create" (func $create (param i32)))
        (func (export "run") (call $create (i32.const ${AREA})) (call $ctl ${consts(1000, 3, 0, 0, AREA)})))`),
    );
    const asked: number[] = [];
    const { exports } = instantiateInFastLane({ table: hostcalls, guest: state, counts: newCounters(1) }, module, {
      env: {
        memory,
        cabi_realloc: (_old: number, _size: number, _align: number, size: number) => asked.push(size) * 512,
      },
      'spear:host/poll@1.0.0': { 'spear-fd-ctl': () => {}, 'spear-epoll-create': () => {} },
    });
    (exports.run as WebAssembly.GuestFunction)();
    expect(asked).toEqual(['{"kind":"Epoll"}'.length]);
    expect(Buffer.from(memory.buffer).toString('utf8', 512, 528)).toBe('{"kind":"Epoll"}');
  });

  it('cannot be called before the memory is known, in a start function', async () => {
    const text: GuestText = {
      calls: ['log'],
      body: `(func $early (call $log ${consts(2, 0, 4, AREA)})) (start $early)`,
    };
    await expect(lane(text)).rejects.toThrow('outside the guest memory');
  });
});
