import { readdirSync, readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { ModuleError } from '../../../../src/runtime/abi/guest-module.ts';
import { readComponent, withoutCustomSections } from '../../../../src/runtime/wasm/component/component-binary.ts';
import { JCO_VERSION } from '../../../../src/runtime/wasm/component/component-cache.ts';
import { refineGlue, type TranspileRequest, transpile } from '../../../../src/runtime/wasm/component/transpile.ts';
import { unsignedLeb } from '../../../../src/runtime/wasm/wasm-binary.ts';
import { buildComponent, dummyComponent, fromText, logging } from '../../../support/component-text.ts';
import { until } from '../../../support/until.ts';

const GENEROUS_MS = 120_000;
const never = new AbortController().signal;
const request = (bytes: Uint8Array): TranspileRequest => ({ bytes, asyncImports: [], asyncExports: ['run'] });

let simple = new Uint8Array();
beforeAll(async () => {
  simple = new Uint8Array(await buildComponent(logging('hello')));
});

/** Threads of this process; each test file has one of its own. */
const threads = () => readdirSync('/proc/self/task').length;

describe('jco, on a thread of its own', () => {
  it(
    'gives the glue and the core modules that it asks for',
    async () => {
      const { glue, coreModules } = await transpile(request(simple), GENEROUS_MS, never);
      const wanted = [...glue.matchAll(/getCoreModule\('([^']+)'\)/g)].map(([, name]) => name);
      expect([...coreModules.keys()].sort()).toEqual(wanted.sort());
      for (const bytes of coreModules.values()) expect(WebAssembly.validate(new Uint8Array(bytes))).toBe(true);
    },
    GENEROUS_MS,
  );

  it(
    'marks what may wait, and nothing else',
    async () => {
      const bytes = await dummyComponent();
      const name = 'spear:host/cchat@1.1.0#cchat-send';
      const { glue } = await transpile({ bytes, asyncImports: [name], asyncExports: ['run'] }, GENEROUS_MS, never);
      expect(glue.match(/\.manuallyAsync = true/g) ?? []).toHaveLength(1);
    },
    GENEROUS_MS,
  );

  it(
    'says what is wrong with an invalid component',
    async () => {
      // Admitted as far as names go: the export has a type that its function has not.
      const invalid = await fromText(
        '(component (core module $m (func (export "f"))) (core instance $i (instantiate $m)))',
      );
      const broken = Buffer.from(invalid);
      broken[broken.indexOf('f', 8)] = 0xff;
      await expect(transpile(request(broken), GENEROUS_MS, never)).rejects.toThrow(ModuleError);
      await expect(transpile(request(broken), GENEROUS_MS, never)).rejects.toThrow(/^not a valid component: /);
    },
    GENEROUS_MS,
  );

  it(
    'says why it gives up, and nothing to the terminal',
    async () => {
      const bytes = await fromText(`(component (core module $m (func (export "f") (result i32) i32.const 0))
        (core instance $i (instantiate $m)) (alias core export $i "f" (core func $f))
        (func $run (result (result)) (canon lift (core func $f))) (export "run" (func $run)) (export "THEN" (func $run)))`);
      await expect(transpile(request(bytes), GENEROUS_MS, never)).rejects.toThrow(
        /^not a valid component: jco failed: failed to find component export .*$/,
      );
    },
    GENEROUS_MS,
  );

  it(
    'is ended at its deadline',
    async () => {
      await expect(transpile(request(simple), 1, never)).rejects.toThrow(
        new ModuleError('compiling the component took longer than limits.transpile_ms = 1'),
      );
    },
    GENEROUS_MS,
  );

  it(
    'is ended when nobody waits any more',
    async () => {
      await transpile(request(simple), GENEROUS_MS, never); // the threads that stay are there now
      const before = threads();
      const stop = new AbortController();
      const running = transpile(request(simple), GENEROUS_MS, stop.signal);
      expect(threads()).toBeGreaterThan(before);
      stop.abort(new Error('nobody waits'));
      await expect(running).rejects.toThrow('nobody waits');
      await until(() => threads() <= before, 'the threads of jco to end');
      await expect(transpile(request(simple), GENEROUS_MS, stop.signal)).rejects.toThrow('nobody waits');
    },
    GENEROUS_MS,
  );
});

describe('custom sections', () => {
  const custom = (name: string, content: string) => {
    const body = Buffer.concat([Buffer.from([name.length]), Buffer.from(name), Buffer.from(content)]);
    return Buffer.concat([Buffer.from([0]), Buffer.from(unsignedLeb(body.length)), body]);
  };
  const sectionsOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1');

  it('do not reach jco, those of core modules but for [component.admission]', async () => {
    const secret = custom('package-docs', '{"docs":"*/ stolen() /*"}');
    const noted = Buffer.concat([simple.subarray(0, 8), secret, simple.subarray(8), secret]);
    expect(sectionsOf(withoutCustomSections(noted))).toBe(sectionsOf(withoutCustomSections(simple)));
    expect(sectionsOf(withoutCustomSections(noted))).not.toContain('stolen');
    expect(sectionsOf(withoutCustomSections(noted))).toContain('producers'); // of the core modules
  });

  it('of nested components do not either, and nothing else is lost [component.admission]', async () => {
    const nested = Buffer.concat([simple.subarray(0, 8), custom('component-name', 'stolen'), simple.subarray(8)]);
    const outer = Buffer.concat([
      simple.subarray(0, 8),
      Buffer.from([4]),
      Buffer.from(unsignedLeb(nested.length)),
      nested,
    ]);
    const kept = withoutCustomSections(outer);
    expect(sectionsOf(kept)).not.toContain('stolen');
    expect(readComponent(kept)).toEqual(readComponent(outer));
  });
});

describe('the generated text', () => {
  const entry = 'export function instantiate(getCoreModule, imports, instantiateCore = WebAssembly.instantiate) {\n';
  const debug = `  const _debugLog = (...args) => {
    if (!globalThis?.process?.env?.JCO_DEBUG) { return; }
    console.debug(...args);
  };\n`;

  it('is of the version that is pinned and installed', () => {
    const manifest = new URL('../../../../node_modules/@bytecodealliance/jco-transpile/package.json', import.meta.url);
    expect(JSON.parse(readFileSync(manifest, 'utf8'))).toMatchObject({ version: JCO_VERSION });
    expect(JCO_VERSION).toMatch(/^\d+\.\d+\.\d+$/);
  });

  it(
    'reads no environment and loads nothing',
    async () => {
      for (const bytes of [simple, await dummyComponent()]) {
        const { glue } = await transpile(request(bytes), GENEROUS_MS, never);
        expect(glue).toContain('const _debugLog = () => {};');
        expect(glue).not.toMatch(/process\?\.|JCO_DEBUG|\bimport\s*\(|^\s*import\s/m);
        expect(glue).toContain(entry);
      }
    },
    GENEROUS_MS,
  );

  it('of another form is an error, not a guest that is slow or free', () => {
    expect(refineGlue(entry + debug)).toBe(`${entry}  const _debugLog = () => {};\n`);
    expect(() => refineGlue(entry)).toThrow('unexpected debug log');
    expect(() => refineGlue(entry + debug.replace('JCO_DEBUG', 'DEBUG'))).toThrow('unexpected debug log');
    expect(() => refineGlue(`${entry}${debug} globalThis.process?.env`)).toThrow('unexpected debug log');
    expect(() => refineGlue(debug)).toThrow('without the expected entry function');
  });

  it.each([
    "import fs from 'node:fs'",
    "import 'node:fs'",
    "import{a}from 'b'",
    "import * as x from 'y'",
    "  const x = await import ('node:fs')",
    "export * from 'x'",
    "export { a } from 'x'",
    "const fs = require('node:fs')",
  ])('that has %j is not run', (line) => {
    expect(() => refineGlue(`${entry}${debug}${line}\n`)).toThrow('loads other code');
  });

  it('may hold names that only look like it', () => {
    const names = "  import: f,\n  export: g['from'],\n  importFn: h,\n  require: i,\n  'process.env': j,\n";
    expect(refineGlue(entry + debug + names)).toContain(names);
  });
});
