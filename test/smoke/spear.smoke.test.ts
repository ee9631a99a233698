import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runSpear } from '../cli/spear/run-spear.ts';
import { fixture, scratch, spearRun } from '../e2e/spear-run.ts';

// One path through each offline command of the built spear.

const file = (name: string) => join(scratch, name);
const sum = [fixture('c/sum.wasm'), '--script', fixture('scripts/sum.json')];

it('answers --version and --help', async () => {
  expect((await runSpear(['--version'])).stdout).toMatch(/^spear \d+\.\d+\.\d+\n$/);
  const { code, stdout } = await runSpear(['--help']);
  expect(code).toBe(0);
  for (const command of ['servers', 'approvals', 'doctor', 'replay']) expect(stdout).toContain(command);
});

it('refuses an unknown command with 2 and names the nearest one', async () => {
  const { code, stderr } = await runSpear(['sevrers', 'ls']);
  expect([code, stderr]).toEqual([2, expect.stringContaining('servers')]);
});

it('records a journal that verifies, replays and shows the run', async () => {
  const journal = file('sum.journal');
  expect((await spearRun([...sum, '--journal', journal])).code).toBe(0);
  for (const command of [['journal', 'verify'], ['replay'], ['journal', 'show']]) {
    const { code, stdout } = await runSpear([...command, journal]);
    expect([command, code]).toEqual([command, 0]);
    expect(stdout).not.toBe('');
  }
});

it('tests recorded runs against a module', async () => {
  const journal = file('again.journal');
  expect((await spearRun([...sum, '--journal', journal])).code).toBe(0);
  expect((await runSpear(['test', '--journals', scratch, '--wasm', fixture('c/sum.wasm')])).code).toBe(0);
});

it('verifies an audit log, and finds a changed line', async () => {
  const log = file('audit.jsonl');
  expect((await spearRun([...sum, '--audit', log])).code).toBe(0);
  expect((await runSpear(['audit', 'verify', log])).code).toBe(0);
  writeFileSync(log, '{"v":2,"chain":"0","seq":1}\n', { flag: 'a' });
  expect((await runSpear(['audit', 'verify', log])).code).toBe(1);
});

it('explains why a tool is allowed or denied', async () => {
  const args = ['--task-config', fixture('tasks/tour.json'), '--mcp-dir', fixture('mcp.d'), '--json'];
  const { code, stdout } = await runSpear(['explain', 'files', 'read_text_file', ...args]);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ server: 'files', tool: 'read_text_file' });
});

it('diagnoses a task with doctor', async () => {
  const task = ['--task-config', fixture('tasks/sum.json'), '--script', fixture('scripts/sum.json')];
  const { code, stdout } = await runSpear(['doctor', fixture('c/sum.wasm'), ...task]);
  expect([code, stdout]).toEqual([0, expect.stringContaining('✓')]);
});

it('turns a core module into a component that runs', async () => {
  const component = file('hello.component.wasm');
  expect((await runSpear(['componentize', fixture('c/hello.wasm'), '-o', component])).code).toBe(0);
  expect((await spearRun([component])).code).toBe(0);
});
