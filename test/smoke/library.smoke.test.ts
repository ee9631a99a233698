import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { fixture, projectNode, root } from '../e2e/spear-run.ts';

it('runs a guest from a program that imports the built library', async () => {
  const program = `
    import { runGuest } from './dist/index.js';
    const { reason, exitCode } = await runGuest({ wasm: ${JSON.stringify(fixture('c/hello.wasm'))} });
    console.log(JSON.stringify({ reason, exitCode }));
  `;
  const { stdout } = await promisify(execFile)(projectNode, ['--input-type=module', '-e', program], { cwd: root });
  expect(JSON.parse(stdout.trim().split('\n').at(-1) ?? '')).toEqual({ reason: 'exit', exitCode: 0 });
});
