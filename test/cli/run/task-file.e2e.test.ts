import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { builtCommand } from '../../support/built-command.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-task-file-'));
afterAll(() => rmSync(folder, { recursive: true }));

const spearRun = (...args: string[]) =>
  spawnSync(process.execPath, [builtCommand('spear-run'), ...args], { encoding: 'utf8', cwd: tmpdir() });

it('spear-run takes the file of a task, with the module that it names, and says what is wrong with it [node.task-file]', () => {
  copyFileSync(fileURLToPath(new URL('../../../fixtures/c/hello.wasm', import.meta.url)), join(folder, 'hello.wasm'));
  const file = join(folder, 'hello.toml');
  writeFileSync(file, 'name = "hello"\nwasm = "hello.wasm"\nconcurrency = 3\n[retry]\nmax_attempts = 5\n');
  expect(spearRun('--task-config', file)).toMatchObject({ status: 0, stdout: 'hello from C\n' });
  writeFileSync(file, 'name = "hello"\nwasm = "hello.wasm"\nisolation = "thred"\n');
  expect(spearRun('--task-config', file).stderr).toContain('isolation: expected one of "shared", "thread"');
  writeFileSync(file, 'name = "hello"\nwasm = = 1\n');
  expect(spearRun('--task-config', file).stderr).toMatch(/hello\.toml:2:\d+: not valid TOML/);
  writeFileSync(file, 'name = "hello"\n');
  expect(spearRun('--task-config', file).stderr).toContain('names no module');
});
