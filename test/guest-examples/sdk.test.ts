import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { abiVersion, type Call, calls, coreParams, FRAME_BYTES } from '../../src/runtime/abi/calls.ts';
import { errno } from '../../src/runtime/abi/errno.ts';
import { FRAME_HEADER_BYTES } from '../../src/runtime/port/user-stream.ts';
import { assemblyScriptConstants, assemblyScriptDeclarations, cConstants, cDeclarations } from './sdk-source.ts';
import { readModule } from './wasm-imports.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(`${root}/${path}`, 'utf8');

const header = read('guest-examples/c/spear.h');
const module = read('guest-examples/assemblyscript/spear.ts');
const sdks = [
  {
    name: 'spear.h',
    declarations: cDeclarations(header),
    constants: cConstants(header),
    own: { FRAME_MAX: FRAME_BYTES, FRAME_HEADER: FRAME_HEADER_BYTES },
  },
  {
    name: 'spear.ts',
    declarations: assemblyScriptDeclarations(module),
    constants: assemblyScriptConstants(module),
    own: {},
  },
];

/** Numbers of the ABI page that are in no table: what flags, commands, operations and events are called here. */
const numbers = {
  LOG_TRACE: 0,
  LOG_DEBUG: 1,
  LOG_INFO: 2,
  LOG_WARN: 3,
  LOG_ERROR: 4,
  SEND_METRICS: 1,
  SEND_AUTO_TOOL_CALL: 2,
  SEND_HAND_BACK: 4,
  SEND_STREAM: 8,
  TOOL_HANDED_BACK: -1,
  CHAT_SET_PARAM: 1,
  CHAT_GET_METRICS: 2,
  FD_SET_FLAGS: 1,
  FD_GET_FLAGS: 2,
  FD_GET_KIND: 3,
  FD_GET_STATUS: 4,
  FD_GET_METRICS: 5,
  FD_CLOSE: 6,
  EPOLL_CTL_ADD: 1,
  EPOLL_CTL_MOD: 2,
  EPOLL_CTL_DEL: 3,
  EPOLLIN: 1,
  EPOLLOUT: 4,
  EPOLLERR: 8,
  EPOLLHUP: 16,
  STREAM_IN: 1,
  STREAM_OUT: 2,
  STREAM_BOTH: 3,
  STREAM_CONNECTED: 1,
  STREAM_CLOSED: 2,
};

const rows: readonly Call[] = calls;
const resultType = (row: Call) => (row.result === 'none' ? '' : row.result);
const signature = (row: Call) => `(${coreParams(row).map(() => 'i32')})->(${resultType(row)})`;

describe.each(sdks)('$name', ({ declarations, constants, own }) => {
  it('declares the calls of the table, in its order, and no others', () => {
    expect(declarations.map(({ name }) => name)).toEqual(rows.map(({ name }) => name));
  });

  it.each(rows)('declares $name with the parameters and the result of its row', (row) => {
    const declaration = declarations.find(({ name }) => name === row.name);
    expect(declaration).toEqual({
      name: row.name,
      params: coreParams(row).map((name) => ({ name, type: 'i32' })),
      result: row.result,
    });
  });

  it('has every errno with its Linux number, the ABI version, every flag, and no other constant', () => {
    expect(Object.fromEntries(constants)).toEqual({
      ABI_MAJOR: abiVersion.major,
      ABI_MINOR: abiVersion.minor,
      ...errno,
      ...numbers,
      ...own,
    });
  });
});

it('both SDKs declare every import in the one form that the checks above read', () => {
  expect(header.match(/import_module/g)).toHaveLength(1);
  expect(header.match(/SPEAR_IMPORT\(/g)).toHaveLength(rows.length + 2);
  expect(module.match(/@external\("spear"/g)).toHaveLength(rows.length);
});

const built = ['c', 'c/test', 'assemblyscript', 'assemblyscript/test'].flatMap((folder) =>
  readdirSync(`${root}/fixtures/${folder}`)
    .filter((name) => name.endsWith('.wasm') && !name.endsWith('.component.wasm'))
    .map((name) => `${folder}/${name}`),
);

describe('the guests in fixtures', () => {
  it('are those that have a source', () => {
    const parts = new Set([
      'assemblyscript/spear',
      'assemblyscript/spear-component',
      'assemblyscript/component-memory',
      'assemblyscript/expenses',
    ]);
    const sources = ['c', 'c/test', 'assemblyscript', 'assemblyscript/test'].flatMap((folder) =>
      readdirSync(`${root}/guest-examples/${folder}`)
        .filter((name) => /\.(c|cpp|ts|wat)$/.test(name))
        .map((name) => `${folder}/${name.replace(/\.\w+$/, '')}`)
        .filter((name) => !parts.has(name)),
    );
    expect(built.map((name) => name.replace('.wasm', '')).sort()).toEqual(sources.sort());
  });

  it.each(built)('%s imports rows of the table with their signatures, and WASI only besides', (name) => {
    const { imports } = readModule(readFileSync(`${root}/fixtures/${name}`));
    for (const found of imports) {
      if (found.module === 'wasi_snapshot_preview1') continue;
      const row = rows.find((candidate) => candidate.name === found.name);
      expect(found).toEqual({
        module: 'spear',
        name: found.name,
        signature: row ? signature(row) : 'a row of the table',
      });
    }
  });

  it.each(built)('%s exports its memory, can be entered, and keeps its function names', (name) => {
    const bytes = readFileSync(`${root}/fixtures/${name}`);
    const compiled = new WebAssembly.Module(bytes);
    const names = WebAssembly.Module.exports(compiled).map((entry) => entry.name);
    expect(names).toContain('memory');
    if (!name.endsWith('/json.wasm')) expect(names.includes('_start') || names.includes('run')).toBe(true);
    expect(readModule(bytes).hasStartSection, 'a call that suspends cannot work in a start section').toBe(false);
    expect(WebAssembly.Module.customSections(compiled, 'name')).toHaveLength(1);
    expect(WebAssembly.Module.customSections(compiled, '.debug_info')).toHaveLength(0);
  });

  it.each(built.filter((name) => !name.endsWith('catch-all.wasm')))(
    '%s exports the table that tools are called through',
    (name) => {
      const exported = WebAssembly.Module.exports(new WebAssembly.Module(readFileSync(`${root}/fixtures/${name}`)));
      const tables = exported.filter(({ kind }) => kind === 'table').map((entry) => entry.name);
      expect(tables).toEqual([name.startsWith('c/') ? '__indirect_function_table' : 'table']);
    },
  );
});

it('the audit agents of both languages hold the same claims and the same policy', () => {
  const claims = /E\d\d,2026[^"\n\\`]*/g;
  const inC = read('guest-examples/c/expenses.h');
  const inAssemblyScript = read('guest-examples/assemblyscript/expenses.ts');
  expect(inC.match(claims)).toHaveLength(18);
  expect(inAssemblyScript.match(claims)).toEqual(inC.match(claims));
  const rules = (source: string, pattern: RegExp) =>
    [...source.matchAll(pattern)].map(([, name, text]) => `${name}: ${text}`);
  const inHeader = rules(inC, /\{"([\w-]+)", "([^"]+)"\}/g);
  expect(inHeader).toHaveLength(5);
  expect(rules(inAssemblyScript, /new Rule\("([\w-]+)", "([^"]+)"\)/g)).toEqual(inHeader);
});
