import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { componentWit } from '@bytecodealliance/jco-transpile/wasm-tools';
import { describe, expect, it } from 'vitest';
import { currentSources, recordedSources } from '../../scripts/guest-sources.ts';
import { type Call, calls, coreParams } from '../../src/runtime/abi/calls.ts';
import { errno } from '../../src/runtime/abi/errno.ts';
import { readModule } from './wasm-imports.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(join(root, 'guest-examples/rust', path), 'utf8');
const rows: readonly Call[] = calls;

const types: Readonly<Record<string, string>> = {
  i32: 'i32',
  i64: 'i64',
  usize: 'i32',
  '*const u8': 'i32',
  '*mut u8': 'i32',
  '*mut u32': 'i32',
};
const core = (type: string) => types[type] ?? `a type this test does not know: ${type}`;

/** Every `pub safe fn name(parameters) -> type;` of the imports in src/host/core.rs. */
const declarations = [...read('src/host/core.rs').matchAll(/pub (?:un)?safe fn (\w+)\(([^)]*)\)(?: -> (\w+))?;/g)].map(
  ([, name = '', params = '', result]) => ({
    name,
    params: params
      .split(',')
      .map((param) => param.trim().split(': '))
      .filter(([param]) => param !== '')
      .map(([param, type = '']) => ({ name: param, type: core(type) })),
    result: result === undefined ? 'none' : core(result),
  }),
);

describe('the crate spear-guest', () => {
  it('imports the calls of the table, in its order, with their parameters and results', () => {
    expect(declarations).toEqual(
      rows.map((row) => ({
        name: row.name,
        params: coreParams(row).map((name) => ({ name, type: 'i32' })),
        result: row.result,
      })),
    );
  });

  it('offers every call to guests, documented, in the order of the table', () => {
    const offered = [...read('src/host.rs').matchAll(/^ {4}\/\/\/ .+\n {4}fn (\w+)\(/gm)].map(([, name]) => name);
    expect(offered).toEqual(rows.map(({ name }) => name));
  });

  it('has every errno with its Linux number, in the order of the table [sdk.rust.errors]', () => {
    const found = [...read('src/errno.rs').matchAll(/^ {4}(E[A-Z]+) (\d+) "/gm)];
    expect(found.map(([, name, number]) => [name, Number(number)])).toEqual(Object.entries(errno));
  });

  it('has the numbers of flags, commands and operations', () => {
    const found = [...read('src/host.rs').matchAll(/^pub const (\w+): i32 = (\d+);/gm)];
    const commands = (name: string, prefix: string) =>
      Object.entries(rows.find((row) => row.name === name)?.commands ?? {}).map(([number, command]) => [
        `${prefix}_${command.name}`,
        Number(number),
      ]);
    expect(Object.fromEntries(found.map(([, name, number]) => [name, Number(number)]))).toEqual({
      SEND_STREAM: 8,
      SEND_METRICS: 1,
      SEND_AUTO_TOOL_CALL: 2,
      SEND_HAND_BACK: 4,
      EPOLL_CTL_ADD: 1,
      EPOLL_CTL_MOD: 2,
      EPOLL_CTL_DEL: 3,
      ...Object.fromEntries([...commands('cchat_ctl', 'CHAT'), ...commands('spear_fd_ctl', 'FD')]),
    });
  });
});

const built = ['rust', 'rust/test'].flatMap((folder) =>
  readdirSync(join(root, 'fixtures', folder))
    .filter((name) => name.endsWith('.wasm'))
    .map((name) => `${folder}/${name}`),
);
const isComponent = (name: string) => name.endsWith('.component.wasm');
const bytesOf = (name: string) => readFileSync(join(root, 'fixtures', name));

describe('the guests in fixtures/rust', () => {
  it('are built from the sources that are here', async () => {
    const [recorded, current] = await Promise.all([recordedSources('rust'), currentSources('rust')]);
    expect(current, 'build them again: npm run build:guests -- --only rust').toEqual(recorded);
  });

  it('are every example in both forms [guests.rust]', () => {
    const examples = [...read('Cargo.toml').matchAll(/^path = "(.+)\.rs"$/gm)].map(([, path]) => `rust/${path}`);
    expect(examples.length).toBeGreaterThan(5);
    expect([...built].sort()).toEqual(examples.flatMap((name) => [`${name}.wasm`, `${name}.component.wasm`]).sort());
  });

  it.each(built.filter((name) => !isComponent(name)))(
    '%s imports rows of the table with their signatures and nothing else, and keeps its names [guests.rust]',
    (name) => {
      const { imports, hasStartSection } = readModule(bytesOf(name));
      const expected = imports.map(({ name: call }) => {
        const row = rows.find((candidate) => candidate.name === call);
        const result = row?.result === 'none' ? '' : row?.result;
        return { module: 'spear', name: call, signature: row && `(${coreParams(row).map(() => 'i32')})->(${result})` };
      });
      expect(imports).toEqual(expected);
      expect(hasStartSection).toBe(false);
      const module = new WebAssembly.Module(bytesOf(name));
      expect(WebAssembly.Module.exports(module).map((entry) => entry.name)).toEqual(
        expect.arrayContaining(['memory', 'run']),
      );
      expect(WebAssembly.Module.customSections(module, 'name')).toHaveLength(1);
    },
  );

  it.each(built.filter(isComponent))(
    '%s imports interfaces of spear:host and no WASI, and exports run [guests.rust]',
    async (name) => {
      const wit = await componentWit(bytesOf(name));
      const imports = [...wit.matchAll(/^ {2}import (.+);$/gm)].map(([, interfaceName]) => interfaceName);
      expect(imports.length).toBeGreaterThan(0);
      for (const found of imports) expect(found).toMatch(/^spear:host\/[a-z-]+@1\.1\.0$/);
      expect(wit).toContain('  export run: func() -> result;');
    },
  );

  it('name no path of the machine that built them [guests.rust]', () => {
    for (const name of built) expect(bytesOf(name).toString('latin1')).not.toMatch(/\/(root|home|Users|work|tmp)\//);
  });
});

describe('npm run build:guests -- --only rust', () => {
  it('says which toolchain is missing and how to get it', () => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['scripts/build-guests.ts', '--check', '--only', 'rust'],
      { cwd: root, env: { PATH: '' }, encoding: 'utf8' },
    );
    expect(stdout).toContain('fixtures/rust/tour.component.wasm');
    expect(stdout).toContain('not built: Rust for wasm32-unknown-unknown is missing');
    expect(stderr).toContain('rustup');
    expect(stderr).toContain('apt-get install rustc-web cargo-web rust-web-src lld');
    expect(status).toBe(0);
  });
});
