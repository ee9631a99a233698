import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { componentWit } from '@bytecodealliance/jco-transpile/wasm-tools';
import { afterAll, expect, it, vi } from 'vitest';
import { builtCommand } from '../support/built-command.ts';
import { running } from '../support/small-modules.ts';
import { i32Const } from '../support/wasm-encoder.ts';

vi.setConfig({ testTimeout: 60_000 });

const entry = builtCommand('spear');
const fixtures = fileURLToPath(new URL('../../fixtures', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'spear-componentize-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function spear(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [entry, 'componentize', ...args], { timeout: 30_000 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

it('makes a component of a module that exports run, in world task [component.componentize]', async () => {
  const module = join(folder, 'run.wasm');
  const output = join(folder, 'run.component.wasm');
  writeFileSync(module, running(i32Const(0)));
  const { code, stdout, stderr } = await spear(module, '-o', output);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/run\.component\.wasm: \d+ bytes/);
  expect(await componentWit(readFileSync(output))).toContain('export run: func() -> result;');
});

it('adapts WASI preview 1 of a program with a main, and enters it through wasi:cli/run [component.componentize]', async () => {
  const output = join(folder, 'hello.component.wasm');
  expect((await spear(join(fixtures, 'c/hello.wasm'), '-o', output)).code).toBe(0);
  expect(await componentWit(readFileSync(output))).toMatch(/export wasi:cli\/run@0\.2\.\d+;/);
});

it.each([
  ['a text', 'package.json', [], 1, 'not a core module'],
  ['a module of the core form', 'c/agent.wasm', [], 1, 'compile with -DSPEAR_COMPONENT'],
  ['a file that is not there', 'nothing.wasm', [], 2, 'cannot be read (ENOENT)'],
  ['an unknown world', 'c/hello.wasm', ['--world', 'moon'], 2, '--world: expected task or imports, found "moon"'],
  ['a world that it does not fit', 'c/hello.wasm', ['--world', 'task'], 1, 'does not match world task of spear.wit'],
])('refuses %s, says why, and writes nothing [component.componentize]', async (_what, file, more, code, message) => {
  const output = join(folder, `refused-${code}.wasm`);
  const input =
    file === 'package.json' ? fileURLToPath(new URL(`../../${file}`, import.meta.url)) : join(fixtures, file);
  const result = await spear(input, '-o', output, ...more);
  expect(result.stderr).toContain(message);
  expect(result.code).toBe(code);
  expect(existsSync(output)).toBe(false);
});

it('explains itself [component.componentize]', async () => {
  expect((await spear('--help')).stdout).toContain('spear componentize MODULE.wasm --output COMPONENT.wasm [options]');
  const { code, stderr } = await spear('only-one-argument.wasm');
  expect(stderr).toContain('usage: spear componentize');
  expect(code).toBe(2);
});
