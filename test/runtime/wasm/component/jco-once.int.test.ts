import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../../../..');
const folder = mkdtempSync(join(tmpdir(), 'spear-jco-once-'));
afterAll(() => rmSync(folder, { recursive: true }));
/** Only jco has so many functions. */
const MANY = 1_000;
const FUNCTION = /Compiled function (0x[0-9a-f]+)#\d+ using (Liftoff|TurboFan)/g;

const program = `
  import { readFileSync } from 'node:fs';
  import { prepare } from './src/runtime/wasm/prepare.ts';
  import { compileLimits } from './src/runtime/port/limits.ts';
  for (const name of ['hello', 'echo']) {
    const bytes = readFileSync('fixtures/c/' + name + '.component.wasm');
    await prepare(bytes, { limits: compileLimits({}), allowUnknownImports: false });
  }
`;

it('a process compiles jco once for all components, and optimizes little of it', async () => {
  const args = ['--trace-wasm-compilation-times', '--input-type=module', '--eval', program];
  // A file: what V8 prints into a pipe that is full is lost.
  const trace = join(folder, 'trace');
  const file = openSync(trace, 'w');
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', file, 'inherit'] });
  closeSync(file);
  expect(await once(child, 'exit')).toEqual([0, null]);
  const compiled = new Map<string, { Liftoff: number; TurboFan: number }>();
  for (const [, module = '', compiler] of readFileSync(trace, 'utf8').matchAll(FUNCTION)) {
    const count = compiled.get(module) ?? { Liftoff: 0, TurboFan: 0 };
    count[compiler as 'Liftoff' | 'TurboFan'] += 1;
    compiled.set(module, count);
  }
  const large = [...compiled.values()].filter(({ Liftoff }) => Liftoff > MANY);
  expect(large).toHaveLength(1);
  expect(large[0]?.TurboFan).toBeLessThan(MANY / 4);
});
