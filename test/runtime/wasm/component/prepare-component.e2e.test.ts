import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { interfaceName } from '../../../../src/runtime/abi/wit.ts';
import { compileLimits, type LimitName } from '../../../../src/runtime/port/limits.ts';
import { describeComponent, type PreparedComponent } from '../../../../src/runtime/wasm/component/component-stages.ts';
import { compileOnce } from '../../../../src/runtime/wasm/component/prepare-component.ts';
import { prepare } from '../../../../src/runtime/wasm/prepare.ts';
import { buildComponent, dummyComponent, fromText, logging } from '../../../support/component-text.ts';
import { runFixture } from '../../../support/run-fixture.ts';

const GENEROUS_MS = 120_000;

let folder = '';
let cache = '';
let hello = new Uint8Array();
beforeAll(async () => {
  hello = new Uint8Array(await buildComponent(logging('hello')));
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'spear-prepare-'));
  cache = join(folder, 'components');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Given {
  readonly componentCache?: string | null;
  readonly limits?: Partial<Record<LimitName, number>>;
}

async function prepared(bytes: Uint8Array, { componentCache = cache, limits }: Given = {}) {
  const notices: string[] = [];
  const found = await prepare(bytes, {
    limits: compileLimits(limits),
    allowUnknownImports: false,
    componentCache,
    onNotice: (text) => notices.push(text),
  });
  if (found.kind !== 'component') throw new Error('it was taken for a core module');
  return { component: found as PreparedComponent, notices };
}

describe('a component', () => {
  it(
    'becomes glue, core modules, imports and an entry',
    async () => {
      const { component } = await prepared(await dummyComponent());
      expect(component).toMatchObject({ kind: 'component', entry: 'run', lane: { kind: 'glue' } });
      expect(component.imports).toEqual(
        expect.arrayContaining(['cchat', 'mcp', 'poll', 'log', 'clock', 'types'].map(interfaceName)),
      );
      expect(component.coreModules.size).toBe(3);
      for (const module of component.coreModules.values()) expect(module).toBeInstanceOf(WebAssembly.Module);
    },
    GENEROUS_MS,
  );

  it('that is too large is not looked at', async () => {
    await expect(prepared(hello, { limits: { module_bytes: 100 } })).rejects.toThrow('limits.module_bytes is 100');
  });

  it('that starts with too much memory does not start [component.memory]', async () => {
    const large = await buildComponent(
      logging('hello').replace('(memory (export "memory") 1)', '(memory (export "memory") 5)'),
    );
    await expect(prepared(large, { limits: { memory_bytes: 4 * 65_536 } })).rejects.toThrow(
      'the component starts with 327680 bytes of memory, limits.memory_bytes is 262144',
    );
  });

  it(
    'whose core module is invalid is refused in words',
    async () => {
      const bytes = await fromText(`(component (core module $m (func (export "f") (result i32) i32.const 0))
      (core instance $i (instantiate $m)) (alias core export $i "f" (core func $f))
      (func $run (result (result)) (canon lift (core func $f))) (export "run" (func $run)))`);
      const broken = Buffer.from(bytes);
      const body = broken.indexOf(Buffer.from([0x41, 0x00, 0x0b])); // i32.const 0, end
      broken[body] = 0x42; // i64.const 0
      await expect(prepared(broken)).rejects.toThrow(/not a valid component|does not compile/);
    },
    GENEROUS_MS,
  );

  it.each([
    [
      'a memory',
      '(drop (i32.load offset=200 (i32.const 0)))',
      [0x28, 0x02, 0xc8, 0x01],
      () => [0x28, 0x42, 0x01, 0x00],
    ],
    ['a function', '(block) (call $last)', [0x02, 0x40, 0x0b, 0x10], (last = 0) => [0x02, 0x40, 0x0b, 0x10, last + 1]],
  ] as const)(
    'whose core module names %s that only the preemption pass adds is rejected [threads.validated]',
    async (_what, instructions, valid, pastTheEnd) => {
      const core = logging('hello')
        .replace('(func (export "run") (result i32)', (run) => `${run} ${instructions}`)
        .replace(/\)\s*$/, '(func $last))');
      const bytes = Buffer.from(await buildComponent(core));
      const options = { limits: compileLimits(), allowUnknownImports: false, preemptible: true };
      expect(await prepare(bytes, options)).toMatchObject({ lane: { kind: 'fast' }, unshareable: null });
      const at = bytes.indexOf(Buffer.from(valid));
      bytes.set(pastTheEnd(bytes[at + valid.length]), at);
      await expect(prepare(bytes, options)).rejects.toThrow(/not a valid component|does not compile/);
    },
    GENEROUS_MS,
  );

  it('gets no unknown imports, whatever is allowed to core modules', async () => {
    const bytes = await fromText('(component (import "acme:shell/run@1.0.0" (instance)))');
    const options = { limits: compileLimits(), allowUnknownImports: true };
    await expect(prepare(bytes, options)).rejects.toThrow(
      'the component has imports that this host does not provide: acme:shell/run@1.0.0',
    );
  });
});

describe('the cache', () => {
  it(
    'serves the second time, with the same result [component.cache]',
    async () => {
      const first = await prepared(hello);
      const second = await prepared(hello);
      expect([first.component.origin.cached, second.component.origin.cached]).toEqual([false, true]);
      expect(second.component.glue).toBe(first.component.glue);
      expect([...second.component.coreModules.keys()]).toEqual([...first.component.coreModules.keys()]);
      expect(describeComponent(second.component)).toMatch(/^component: fast lane; cached, \d+ ms$/);
      expect(describeComponent(first.component)).toMatch(/^component: fast lane; compiled now, \d+ ms$/);
      expect(readdirSync(cache)).toHaveLength(1);
    },
    GENEROUS_MS,
  );

  it(
    'holds for any limits of memory, and bounds apply at every load [component.cache]',
    async () => {
      await prepared(hello, { limits: { memory_bytes: 65_536 } });
      const { component } = await prepared(hello, { limits: { memory_bytes: 2 * 65_536 } });
      expect(component.origin.cached).toBe(true);
    },
    GENEROUS_MS,
  );

  it(
    'is not needed: null runs without [component.cache]',
    async () => {
      const { component } = await prepared(hello, { componentCache: null });
      expect(component.origin.cached).toBe(false);
      expect(readdirSync(folder)).toEqual([]);
    },
    GENEROUS_MS,
  );

  it(
    'that others may enter is not used, and that is said',
    async () => {
      mkdirSync(cache);
      chmodSync(cache, 0o755);
      const { notices } = await prepared(hello);
      expect(notices).toContain(
        `the component cache ${cache} is not used: other users may access the directory (chmod 700 ${cache})`,
      );
      expect(readdirSync(cache)).toEqual([]);
    },
    GENEROUS_MS,
  );
});

describe('the progress line', () => {
  const told = async (directory: string | null, noticeableMs: number) => {
    const notices: string[] = [];
    const host = { cacheDirectory: directory, onNotice: (text: string) => notices.push(text), noticeableMs };
    await compileOnce(hello, GENEROUS_MS, { ...host, signal: new AbortController().signal });
    return notices;
  };

  it(
    'comes when it takes long, once, and says whether the result is kept',
    async () => {
      expect(await told(cache, 0)).toEqual(['compiling the component (once; the result is cached for later runs) …']);
      expect(await told(null, 0)).toEqual(['compiling the component (no cache, so on every run) …']);
    },
    GENEROUS_MS,
  );

  it(
    'does not come for what is there already, or soon',
    async () => {
      expect(await told(cache, GENEROUS_MS)).toEqual([]);
      expect(await told(cache, 0)).toEqual([]);
    },
    GENEROUS_MS,
  );
});

describe('a run', () => {
  it(
    'is told how the component runs when it wants to know',
    async () => {
      const quiet = await runFixture(hello, { componentCache: cache });
      expect(quiet).toMatchObject({ reason: 'exit', exitCode: 0, stdout: 'hello\n' });
      expect(quiet.notices.filter((text) => !text.startsWith('compiling'))).toEqual([]);
      const verbose = await runFixture(hello, { componentCache: cache, verbose: true });
      expect(verbose.notices).toEqual([expect.stringMatching(/^component: fast lane; cached, \d+ ms$/)]);
    },
    GENEROUS_MS,
  );

  it(
    'names what is wrong before anything starts',
    async () => {
      const bytes = await fromText('(component (import "spear:host/clock@2.0.0" (instance)))');
      expect(await runFixture(bytes)).toMatchObject({
        reason: 'module',
        message: expect.stringContaining('spear:host/clock@2.0.0 (this host has spear:host 1.1.0'),
      });
    },
    GENEROUS_MS,
  );

  it(
    'that is ended while its component is compiled ends at once',
    async () => {
      const run = await runFixture(hello, { signal: AbortSignal.abort() });
      expect(run.reason).toBe('interrupted');
    },
    GENEROUS_MS,
  );

  it(
    'whose component takes too long to compile says which limit it was',
    async () => {
      const run = await runFixture(hello, { limits: { transpile_ms: 1 } });
      expect(run).toMatchObject({ reason: 'module', message: expect.stringContaining('limits.transpile_ms = 1') });
    },
    GENEROUS_MS,
  );
});
