import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { helpText } from '../../src/cli/command-help.ts';
import { runProgramTable } from '../../src/cli/run/table.ts';
import { fixture, scratch, spearRun } from './spear-run.ts';

const runHelp = helpText(runProgramTable, 'spear-run');
const hello = fixture('c/hello.wasm');

function file(name: string, content: string | Uint8Array): string {
  const path = join(scratch, name);
  writeFileSync(path, content);
  return path;
}

it('prints its help and its version on stdout', async () => {
  for (const flag of ['--help', '-h']) {
    expect(await spearRun([flag])).toEqual({ code: 0, signal: null, stdout: runHelp, stderr: '' });
  }
  for (const flag of ['--version', '-V']) {
    expect(await spearRun([flag])).toMatchObject({ code: 0, stdout: `spear-run ${packageJson.version}\n`, stderr: '' });
  }
});

it('prints its help when a module and other flags are given too', async () => {
  expect(await spearRun([hello, '--json', '--help'])).toMatchObject({ code: 0, stdout: runHelp });
});

describe('a command line that is wrong', () => {
  it.each<[string, string[], string]>([
    ['no module', [], 'missing module'],
    ['two modules', ['a.wasm', 'b.wasm'], 'unexpected argument "b.wasm"; arguments of the guest go after --'],
    [
      'a misspelled flag',
      [hello, '--task-confg', 'x'],
      'unknown option --task-confg for "spear-run"; did you mean --task-config?',
    ],
    ['a flag with an underscore', [hello, '--dry_run'], 'did you mean --dry-run?'],
    [
      'a flag like no other',
      [hello, '--frobnicate'],
      'unknown option --frobnicate for "spear-run"; "spear-run --help" lists them',
    ],
    ['a short flag like no other', [hello, '-x'], 'unknown option -x'],
    ['a flag without its value', [hello, '--task-config'], '--task-config'],
    ['a value where none belongs', [hello, '--json=yes'], '--json'],
    ['a variable without a value', [hello, '--env', 'NAME'], '--env: expected NAME=VALUE'],
    ['a variable without a name', [hello, '--env', '=value'], '--env: expected NAME=VALUE'],
    ['a misspelled limit', [hello, '--limit', 'timeout=5'], 'unknown limit "timeout"; did you mean "timeout_ms"?'],
    ['a limit that is no number', [hello, '--limit', 'max_fds=many'], 'a whole number from 1 to 1000000, found "many"'],
    ['a limit out of range', [hello, '--limit', 'max_fds=0'], 'a whole number from 1 to 1000000, found "0"'],
    ['an unknown backend', [hello, '--backend', 'gpt'], '--backend: unknown backend "gpt" (configured: stub)'],
  ])('%s: one line that says what to do, and 125 [cli.usage] [cli.exit-code.usage]', async (_, args, expected) => {
    const { code, stdout, stderr } = await spearRun(args);
    expect(stderr).toMatch(/^spear-run: [^\n]+\n$/);
    expect(stderr).toContain(expected);
    expect({ code, stdout }).toEqual({ code: 125, stdout: '' });
  });
});

describe('a module that cannot run', () => {
  const component = Uint8Array.from([0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00]);
  const truncated = Uint8Array.from([0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, 0x01, 0x7f]);
  const empty = Uint8Array.from([0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00]);
  mkdirSync(join(scratch, 'folder.wasm'));

  it.each<[string, string, string]>([
    ['a file that is not there', join(scratch, 'nowhere.wasm'), 'no such file'],
    ['a folder', join(scratch, 'folder.wasm'), 'is a directory'],
    ['a text', file('text.wasm', 'hello'), 'not a WebAssembly binary'],
    ['an empty file', file('empty.wasm', ''), 'not a WebAssembly binary'],
    ['a component', file('component.wasm', component), 'it exports neither run: func() -> result nor wasi:cli/run@0.2'],
    ['a module that is cut off', file('truncated.wasm', truncated), 'unexpected end of the module'],
    ['a module without an entry', file('entry.wasm', empty), 'it exports neither _start nor run'],
  ])('%s: named with the reason, and 125, run or checked [cli.exit-code.usage]', async (_, path, reason) => {
    for (const flags of [[], ['--dry-run']]) {
      const { code, stdout, stderr } = await spearRun([path, ...flags]);
      expect(stderr).toMatch(/^spear-run: [^\n]+\n$/);
      expect(stderr.startsWith(`spear-run: ${path}: `)).toBe(true);
      expect(stderr).toContain(reason);
      expect({ code, stdout }).toEqual({ code: 125, stdout: '' });
    }
  });
});

it('gives a guest its arguments and variables, and none of the host’s [cli.guest-args] [cli.guest-env]', async () => {
  const task = file('task.json', JSON.stringify({ args: ['from the task'], env: { A: 'task', B: 'task' } }));
  const args = [
    fixture('c/test/env.wasm'),
    '--task-config',
    task,
    '--env',
    'A=flag',
    '--env',
    'C=1=2',
    '--',
    '--help',
    'ünï',
  ];
  const { code, stdout, stderr } = await spearRun(args, { env: { SECRET_OF_THE_HOST: 'x' } });
  expect(stdout.trimEnd().split('\n')).toEqual([
    'arg 0: env.wasm',
    'arg 1: from the task',
    'arg 2: --help',
    'arg 3: ünï',
    'env: A=flag',
    'env: B=task',
    'env: C=1=2',
  ]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
});

describe('--dry-run', () => {
  it('says what it checked and runs nothing [cli.dry-run]', async () => {
    const { code, stdout, stderr } = await spearRun([hello, '--dry-run', '--limit', 'max_fds=7']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain(`module   ${hello}: `);
    expect(stdout).toContain('backend  stub\n');
    expect(stdout).toContain(' max_fds=7 ');
    expect(stdout).toMatch(/\nnot run \(--dry-run\)\n$/);
    expect(stdout).not.toContain('hello from C');
  });

  it('gives the same as an object [cli.dry-run]', async () => {
    const { code, stdout } = await spearRun([hello, '--dry-run', '--json', '--script', fixture('scripts/chat.json')]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, backend: 'script', limits: { max_fds: 1024 } });
  });
});
