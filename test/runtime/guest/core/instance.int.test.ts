import { describe, expect, it } from 'vitest';
import { namedCounts, newCounters } from '../../../../src/runtime/host/guest-counters.ts';
import { runFixture } from '../../../support/run-fixture.ts';
import { runnable, running } from '../../../support/small-modules.ts';
import { call, drop, i32Const, spin, unreachable, type ValueType, WasmModule } from '../../../support/wasm-encoder.ts';

const WASI = 'wasi_snapshot_preview1';
const fiveI32: ValueType[] = ['i32', 'i32', 'i32', 'i32', 'i32'];

/** A module that exports these functions, each of which gives its number. */
function exporting(
  functions: Record<string, readonly number[]>,
  build: (module: WasmModule) => void = () => {},
): Uint8Array {
  const module = new WasmModule();
  build(module);
  for (const [name, body] of Object.entries(functions)) {
    const results: ValueType[] = name === 'run' ? ['i32'] : [];
    module.export(name, 'function', module.function([], results, body));
  }
  module.memory({ min: 1 });
  module.export('memory', 'memory', 0);
  return module.encode();
}

describe('the entry of a module', () => {
  it('is _start, and its exit code is 0 [entry.choice]', async () => {
    const exit = exporting({ _start: [], run: i32Const(7) });
    expect(await runFixture(exit)).toMatchObject({ reason: 'exit', exitCode: 0 });
  });

  it.each([0, 7, -1, 2_147_483_647])('is else run, whose i32 %i is the exit code [entry.choice]', async (code) => {
    expect(await runFixture(exporting({ run: i32Const(code) }))).toMatchObject({ reason: 'exit', exitCode: code });
  });

  it('may be a run without a result [entry.choice]', async () => {
    const module = new WasmModule();
    module.export('run', 'function', module.function([], [], []));
    expect(await runFixture(module.encode())).toMatchObject({ reason: 'exit', exitCode: 0 });
  });

  it('comes after _initialize, whose hostcalls may wait [entry.choice]', async () => {
    const initialized = exporting({ _initialize: [...i32Const(1), ...call(0)], run: i32Const(3) }, (module) => {
      module.importFunction('spear', 'sleep_ms', ['i32']);
    });
    expect(await runFixture(initialized)).toMatchObject({ reason: 'exit', exitCode: 3, hostcalls: { sleep_ms: 1 } });
    const broken = await runFixture(exporting({ _initialize: unreachable, run: i32Const(3) }));
    expect(broken).toMatchObject({ reason: 'trap', exitCode: null });
  });

  it('is a function: other exports of its name are passed over [entry.choice]', async () => {
    const module = new WasmModule();
    module.memory({ min: 1 });
    for (const name of ['memory', '_start', '_initialize']) module.export(name, 'memory', 0);
    module.export('run', 'function', module.function([], ['i32'], i32Const(5)));
    expect(await runFixture(module.encode())).toMatchObject({ reason: 'exit', exitCode: 5 });
  });
});

describe('the start section', () => {
  const starting = (instructions: (sleep: number, log: number) => readonly number[]) => {
    const module = new WasmModule();
    const sleep = module.importFunction('spear', 'sleep_ms', ['i32']);
    const log = module.importFunction('spear', 'log', ['i32', 'i32', 'i32'], ['i32']);
    module.start(module.function([], [], instructions(sleep, log)));
    module.memory({ min: 1 });
    module.export('memory', 'memory', 0);
    module.export('_start', 'function', module.function([], [], []));
    return module.encode();
  };

  it('cannot wait: the error says why, and what to do [entry.start-section]', async () => {
    const run = await runFixture(starting((sleep) => [...i32Const(1), ...call(sleep)]));
    expect(run.reason).toBe('module');
    expect(run.message).toContain('inside the start section');
    expect(run.message).toContain('--exportStart _initialize');
  });

  it('cannot reach the memory yet: EFAULT, and the guest continues [entry.start-section]', async () => {
    const logged = (_: number, log: number) => [...i32Const(2), ...i32Const(0), ...i32Const(4), ...call(log), ...drop];
    expect(await runFixture(starting(logged))).toMatchObject({ reason: 'exit', exitCode: 0, stdout: '' });
  });

  it('may trap [entry.start-section]', async () => {
    expect(await runFixture(starting(() => unreachable))).toMatchObject({ reason: 'trap', message: 'unreachable' });
  });
});

describe('imports without a host function', () => {
  it('answer ENOSYS when they are allowed, in either type [imports.unknown]', async () => {
    const i32 = running(call(0), (module) => module.importFunction('spear', 'new_call', [], ['i32']));
    expect(await runFixture(i32, { allowUnknownImports: true })).toMatchObject({ reason: 'exit', exitCode: -38 });
    const WRAP = 0xa7;
    const i64 = running([...call(0), WRAP], (module) => module.importFunction('spear', 'new_time', [], ['i64']));
    expect(await runFixture(i64, { allowUnknownImports: true })).toMatchObject({ reason: 'exit', exitCode: -38 });
    expect(await runFixture(i32)).toMatchObject({ reason: 'module', exitCode: null });
  });

  it('of WASI answer its own ENOSYS [imports.unknown]', async () => {
    const args = fiveI32.flatMap(() => i32Const(0));
    const path = running([...args, ...call(0)], (module) => module.importFunction(WASI, 'path_open', fiveI32, ['i32']));
    expect(await runFixture(path)).toMatchObject({ reason: 'exit', exitCode: 52 });
  });

  it.each([
    [WASI, 'constructor'],
    [WASI, 'toString'],
    [WASI, '__proto__'],
    ['__proto__', 'polluted'],
    ['constructor', 'assign'],
    ['hasOwnProperty', 'call'],
    ['spear', '__proto__'],
    ['env', 'valueOf'],
  ])('and whose names are those of JavaScript are no way in: %s.%s [imports.hostile]', async (from, name) => {
    const bytes = running(call(0), (module) => module.importFunction(from, name, [], ['i32']));
    const run = await runFixture(bytes, { allowUnknownImports: true });
    expect(run).toMatchObject({ reason: 'exit', exitCode: from === WASI ? 52 : -38 });
  });
});

describe('the end of a guest', () => {
  it('by proc_exit has its code, and nothing after it runs', async () => {
    const exiting = running([...i32Const(42), ...call(0), ...i32Const(1)], (module) =>
      module.importFunction(WASI, 'proc_exit', ['i32']),
    );
    expect(await runFixture(exiting)).toMatchObject({ reason: 'exit', exitCode: 42 });
    for (const args of [['3'], ['3', 'return']]) {
      expect(await runFixture('c/test/exit.wasm', { args })).toMatchObject({
        reason: 'exit',
        exitCode: 3,
        message: null,
      });
    }
  });

  it('by a trap has the stack of the guest, its functions by name and nothing of ours', async () => {
    const run = await runFixture('c/test/trap.wasm');
    expect(run).toMatchObject({ reason: 'trap', exitCode: null, message: 'unreachable', stdout: 'before the trap\n' });
    const frames = run.stack.split('\n');
    expect(frames[0]).toContain('reach_the_unreachable');
    expect(frames[1]).toContain('walk_to_the_trap');
    for (const frame of frames) expect(frame).toContain('wasm://');
  });

  it('by too deep a recursion is a trap too', async () => {
    const module = new WasmModule();
    module.export('run', 'function', module.function([], [], call(0)));
    const run = await runFixture(module.encode());
    expect(run.reason).toBe('trap');
    expect(run.message).toContain('call stack');
  });

  it('by an exception of its own is a trap', async () => {
    // (tag) (func (export "run") (throw 0))
    const bytes = Uint8Array.from([
      ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
      ...[0x01, 0x04, 0x01, 0x60, 0x00, 0x00],
      ...[0x03, 0x02, 0x01, 0x00],
      ...[0x0d, 0x03, 0x01, 0x00, 0x00],
      ...[0x07, 0x07, 0x01, 0x03, 0x72, 0x75, 0x6e, 0x00, 0x00],
      ...[0x0a, 0x06, 0x01, 0x04, 0x00, 0x08, 0x00, 0x0b],
    ]);
    expect(WebAssembly.validate(bytes)).toBe(true);
    expect(await runFixture(bytes)).toMatchObject({ reason: 'trap', exitCode: null });
  });

  it('of AssemblyScript by abort says why and where', async () => {
    const assemblyScriptText = (text: string) => {
      const bytes = Buffer.from(text, 'utf16le');
      const length = Buffer.alloc(4);
      length.writeUInt32LE(bytes.byteLength);
      return Buffer.concat([length, bytes]);
    };
    const aborting = (message: number, file: number) =>
      running([...[message, file, 6, 3].flatMap(i32Const), ...call(0), ...i32Const(0)], (module) => {
        module.importFunction('env', 'abort', ['i32', 'i32', 'i32', 'i32']);
        module.data(60, assemblyScriptText('nothing left'));
        module.data(124, assemblyScriptText('try.ts'));
      });
    expect(await runFixture(aborting(64, 128))).toMatchObject({
      reason: 'trap',
      stderr: 'abort: nothing left at try.ts:6:3\n',
    });
    expect(await runFixture(aborting(0, -1))).toMatchObject({
      reason: 'trap',
      stderr: 'abort: no message at unknown file:6:3\n',
    });
    expect((await runFixture('assemblyscript/test/abort.wasm')).reason).toBe('trap');
  });

  it('before it began is not a run: a signal that was given already', async () => {
    const spinning = exporting({ _start: spin });
    const run = await runFixture(spinning, { signal: AbortSignal.abort() });
    expect(run).toMatchObject({ reason: 'interrupted', exitCode: null });
  });

  it('counts the calls that it made', async () => {
    const calls = running([...call(0), ...drop, ...call(0), ...drop, ...call(1)], (module) => {
      module.importFunction('spear', 'cchat_create', [], ['i32']);
      module.importFunction('spear', 'spear_abi_version', [], ['i32']);
    });
    expect((await runFixture(calls)).hostcalls).toEqual({ cchat_create: 2, spear_abi_version: 1 });
    expect((await runFixture(runnable())).hostcalls).toEqual({});
  });

  it('counts nothing that its thread could not have counted', () => {
    const counts = newCounters(1);
    counts.set([Number.NaN, -1, 0.5, Number.POSITIVE_INFINITY, 7]);
    expect(Object.values(namedCounts(counts))).toEqual([7]);
  });
});
