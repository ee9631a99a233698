import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Call, calls, coreParams } from '../../../src/runtime/abi/calls.ts';
import { ModuleError } from '../../../src/runtime/abi/guest-module.ts';
import { compileLimits, type LimitName } from '../../../src/runtime/port/limits.ts';
import { type PreparedModule, prepare } from '../../../src/runtime/wasm/prepare.ts';
import { forwarderModule } from '../../support/forwarder.ts';
import { fixtureBytes } from '../../support/run-fixture.ts';
import { runnable } from '../../support/small-modules.ts';
import { type ValueType, WasmModule } from '../../support/wasm-encoder.ts';

const tryPrepare = async (
  bytes: Uint8Array,
  limits: Partial<Record<LimitName, number>> = {},
  allowUnknownImports = false,
): Promise<PreparedModule> => {
  const prepared = await prepare(bytes, { limits: compileLimits(limits), allowUnknownImports });
  if (prepared.kind !== 'core') throw new Error('it was taken for a component');
  return prepared;
};

/** The complaint about a module. */
async function complaint(bytes: Uint8Array, limits: Partial<Record<LimitName, number>> = {}): Promise<string> {
  const error: unknown = await tryPrepare(bytes, limits).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ModuleError);
  return (error as ModuleError).message;
}

describe('the kind of a file', () => {
  it.each([
    ['nothing', Buffer.alloc(0)],
    ['text', Buffer.from('(module)')],
    ['a magic number alone', Buffer.from([0, 0x61, 0x73, 0x6d])],
    ['another version', Buffer.from([0, 0x61, 0x73, 0x6d, 2, 0, 0, 0])],
    ['an ELF file', Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0, 0, 0])],
  ])('%s is not WebAssembly', async (_what, bytes) => {
    expect(await complaint(bytes)).toBe('not a WebAssembly binary');
  });

  it('a component is told from a core module', async () => {
    const empty = Buffer.from([0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0]);
    expect(await complaint(empty)).toContain('exports neither run: func() -> result nor wasi:cli/run');
  });

  it('a core module passes, and so do the built guests', async () => {
    expect((await tryPrepare(runnable())).unknownImports).toEqual([]);
    for (const path of ['c/hello.wasm', 'c/agent.wasm', 'assemblyscript/agent.wasm', 'c/test/catch-all.wasm']) {
      expect((await tryPrepare(await fixtureBytes(path))).module).toBeInstanceOf(WebAssembly.Module);
    }
  });

  it('a module over module_bytes is not looked at', async () => {
    expect(await complaint(runnable(), { module_bytes: 16 })).toMatch(
      /^the module has \d+ bytes, limits\.module_bytes is 16$/,
    );
  });
});

describe('a damaged module', () => {
  const whole = forwarderModule(1);
  const outcome = async (bytes: Uint8Array) => {
    try {
      await tryPrepare(bytes, {}, true);
    } catch (error) {
      if (!(error instanceof ModuleError)) throw error;
    }
  };

  it('cut off at any byte is refused in our words', async () => {
    for (let length = 0; length < whole.byteLength; length++) await outcome(whole.subarray(0, length));
    const cut = runnable();
    for (let length = 0; length < cut.byteLength; length++) {
      await expect(tryPrepare(cut.subarray(0, length))).rejects.toThrow(ModuleError);
    }
  });

  it('with any bytes changed is refused in our words, or runs', async () => {
    const changes = fc.array(fc.tuple(fc.nat({ max: whole.byteLength - 1 }), fc.integer({ min: 0, max: 255 })), {
      minLength: 1,
      maxLength: 4,
    });
    await fc.assert(
      fc.asyncProperty(changes, async (list) => {
        const bytes = Uint8Array.from(whole);
        for (const [at, value] of list) bytes[at] = value;
        await outcome(bytes);
      }),
      { numRuns: 1000, seed: 7 },
    );
  });

  it('of random bytes after the preamble is refused in our words', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 64 }), async (rest) =>
        outcome(Buffer.concat([whole.subarray(0, 8), rest])),
      ),
      { numRuns: 1000, seed: 8 },
    );
  });

  it('says what the engine says of it', async () => {
    const bytes = Uint8Array.from(runnable());
    bytes[bytes.byteLength - 1] = 0x00; // the end of a function
    expect(await complaint(bytes)).toMatch(/^the module does not compile: /);
  });
});

describe('imports', () => {
  const importing = (from: string, name: string, params: ValueType[] = [], results: ValueType[] = []) =>
    runnable((module) => module.importFunction(from, name, params, results));

  it.each((calls as readonly Call[]).map((row) => [row.name, row] as const))(
    '%s links with its own signature and no other',
    async (name, row) => {
      const params: ValueType[] = coreParams(row).map(() => 'i32');
      const results: ValueType[] = row.result === 'none' ? [] : [row.result];
      await tryPrepare(importing('spear', name, params, results));
      expect(await complaint(importing('spear', name, [...params, 'i32'], results))).toContain(
        `the module imports spear.${name} as (`,
      );
      expect(await complaint(importing('spear', name, params, ['f64']))).toContain(
        `-> f64; the ABI has (${params.join(', ')}) -> ${row.result}`,
      );
      if (params.length > 0) {
        expect(await complaint(importing('spear', name, ['i64', ...params.slice(1)], results))).toContain('(i64');
      }
    },
  );

  it('a result may be ignored', async () => {
    await tryPrepare(importing('spear', 'log', ['i32', 'i32', 'i32'], []));
  });

  it('are all checked when one is there twice', async () => {
    const twice = (first: ValueType[], second: ValueType[]) =>
      runnable((module) => {
        module.importFunction('spear', 'cchat_close', first, ['i32']);
        module.importFunction('spear', 'cchat_close', second, ['i32']);
      });
    await tryPrepare(twice(['i32'], ['i32']));
    expect(await complaint(twice(['i64'], ['i32']))).toContain('spear.cchat_close as (i64)');
    expect(await complaint(twice(['i32'], ['i64']))).toContain('spear.cchat_close as (i64)');
  });

  it('are not taken for others by where a dot is', async () => {
    const dotted = (first: ValueType[]) =>
      runnable((module) => {
        module.importFunction('spear', 'cchat_close', first, ['i32']);
        module.importFunction('spear.cchat_close', '', ['f64']);
        module.importFunction('', 'spear.cchat_close', ['f64']);
      });
    expect((await tryPrepare(dotted(['i32']), {}, true)).unknownImports).toHaveLength(2);
    await expect(tryPrepare(dotted(['f64']), {}, true)).rejects.toThrow('spear.cchat_close as (f64)');
  });

  it('that we do not have are named, with the nearest that we have [prepare.unknown-imports]', async () => {
    expect(await complaint(importing('spear', 'cchat_sent', ['i32', 'i32'], ['i32']))).toBe(
      'the module has imports that this host does not provide: spear.cchat_sent (did you mean "cchat_send"?)',
    );
    expect(await complaint(importing('host', 'cchat_send'))).toBe(
      'the module has imports that this host does not provide: host.cchat_send',
    );
    expect(await complaint(importing('spear', 'toString'))).toContain('spear.toString');
    expect(await complaint(importing('env', 'emscripten_notify'))).toContain('env.emscripten_notify');
  });

  it.each(['spear:host/log@1.0.0', 'cm32p2|spear:host/log@1', 'wasi:cli/stdout@0.2.3'])(
    'from %s tell that it is the core module of a component [prepare.unknown-imports]',
    async (from) => {
      const loaded = tryPrepare(importing(from, 'log', ['i32', 'i32', 'i32'], []));
      await expect(loaded).rejects.toMatchObject({
        message: `this is the core module of a component, not the component: it imports ${from}`,
        problem: 'component_parts',
      });
    },
  );

  it('that we do not have can be allowed, in the type that they have [prepare.unknown-imports]', async () => {
    const bytes = runnable((module) => {
      module.importFunction('spear', 'new_call', ['i32'], ['i32']);
      module.importFunction('spear', 'new_time', [], ['i64']);
      module.importFunction('other', 'nothing', []);
    });
    const { unknownImports }: PreparedModule = await tryPrepare(bytes, {}, true);
    expect(unknownImports).toEqual([
      { module: 'spear', name: 'new_call', result: 'i32' },
      { module: 'spear', name: 'new_time', result: 'i64' },
      { module: 'other', name: 'nothing', result: 'none' },
    ]);
  });

  it('of WASI all link, and AssemblyScript’s abort', async () => {
    await tryPrepare(importing('wasi_snapshot_preview1', 'path_open', Array<ValueType>(4).fill('i32'), ['i32']));
    await tryPrepare(importing('env', 'abort', Array<ValueType>(4).fill('i32')));
  });

  it('of anything but functions are refused by name', async () => {
    const module = new WasmModule();
    module.importMemory('env', 'memory', { min: 1 });
    module.export('run', 'function', module.function([], [], []));
    expect(await complaint(module.encode())).toBe(
      'the module imports the memory env.memory; a guest must define its own and export its memory',
    );
  });
});

describe('exports', () => {
  it('need something to call', async () => {
    const module = new WasmModule();
    module.memory({ min: 1 });
    module.export('memory', 'memory', 0);
    module.export('main', 'function', module.function([], [], []));
    module.export('_start', 'memory', 0);
    expect(await complaint(module.encode())).toContain('exports neither _start nor run');
  });

  it('need the memory under its name, if there are hostcalls to reach it', async () => {
    const withoutMemory = (imports: boolean) => {
      const module = new WasmModule();
      if (imports) module.importFunction('spear', 'cchat_create', [], ['i32']);
      module.memory({ min: 1 });
      module.export('mem', 'memory', 0);
      module.export('run', 'function', module.function([], [], []));
      return module.encode();
    };
    expect(await complaint(withoutMemory(true))).toContain('does not export its memory as "memory"');
    await tryPrepare(withoutMemory(false));
  });
});
