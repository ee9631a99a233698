import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fixture, scratch, spearRun } from './spear-run.ts';

const hello = fixture('c/hello.wasm');
const env = fixture('c/test/env.wasm');
let files = 0;

function taskFile(content: unknown): string {
  const path = join(scratch, `task-${++files}.json`);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

it('takes name, config, limits, args, env and backend [task.keys]', async () => {
  const task = taskFile({
    name: 'everything',
    config: { 'mcp.enabled': false, 'mcp.default_server_ids': ['notes'], note: 'any text' },
    limits: { timeout_ms: 60_000, memory_bytes: 16_777_216, max_fds: 16 },
    args: ['one', 'two'],
    env: { LANG: 'C' },
    backend: 'stub',
  });
  const { code, stdout, stderr } = await spearRun([env, '--task-config', task, '--', 'three']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toBe('arg 0: env.wasm\narg 1: one\narg 2: two\narg 3: three\nenv: LANG=C\n');
});

it('takes a bare map of strings as the config [task.bare-map]', async () => {
  const task = taskFile({ 'mcp.enabled': 'false', greeting: 'hello' });
  expect(await spearRun([hello, '--task-config', task])).toMatchObject({
    code: 0,
    stdout: 'hello from C\n',
    stderr: '',
  });
});

it('lets --limit win over the limits of the task [task.limits]', async () => {
  const task = taskFile({ limits: { max_fds: 5 } });
  const opened = async (flags: string[]) =>
    (await spearRun([fixture('c/test/fds.wasm'), ...flags, '--', 'epolls'])).stdout;
  expect(await opened(['--task-config', task])).toContain('opened 5\n');
  expect(await opened(['--task-config', task, '--limit', 'max_fds=3'])).toContain('opened 3\n');
});

describe('a task config that is wrong', () => {
  it.each<[string, unknown, string[]]>([
    [
      'an unknown key',
      { limit: { timeout_ms: 1 } },
      ['unknown key "limit", did you mean "limits"?', 'valid here: name, config'],
    ],
    ['an unknown limit', { limits: { timeout: 1 } }, ['limits: unknown key "timeout", did you mean "timeout_ms"?']],
    ['a key of a map that is not bare', { name: 'x', greting: 'hello' }, ['unknown key "greting"']],
    ['a limit out of range', { limits: { max_fds: 0 } }, ['limits.max_fds: must be at least 1, found 0']],
    [
      'a limit that is a text',
      { limits: { timeout_ms: '5' } },
      ['limits.timeout_ms: expected a number, found a string'],
    ],
    ['a fraction', { limits: { timeout_ms: 1.5 } }, ['limits.timeout_ms: expected a whole number, found a fraction']],
    ['a config with a number', { config: { retries: 3 } }, ['config.retries: expected a string, found a number']],
    ['a bare map with a number', { retries: 3 }, ['unknown key "retries"']],
    ['arguments that are no list', { args: 'one' }, ['args: expected a list, found a string']],
    ['a variable that is no text', { env: { A: 1 } }, ['env.A: expected a string, found a number']],
    ['a variable with a bad name', { env: { 'A=B': '1' } }, ['must not be empty or contain "="']],
    ['a backend that does not exist', { backend: 'gpt' }, ['backend: unknown backend "gpt" (configured: stub)']],
    ['a list', ['name'], ['expected a table, found a list']],
    ['null', null, ['expected a table, found null']],
    ['broken JSON', '{"name": }', ['not valid JSON']],
    ['an empty file', '', ['not valid JSON']],
  ])(
    '%s: names the file and the field, and exits with 125 [task.strict] [cli.exit-code.usage]',
    async (_, content, expected) => {
      const task = taskFile(content);
      const { code, stdout, stderr } = await spearRun([hello, '--task-config', task]);
      expect({ code, stdout }).toEqual({ code: 125, stdout: '' });
      expect(stderr.startsWith(`spear-run: ${task}: `)).toBe(true);
      for (const text of expected) expect(stderr).toContain(text);
    },
  );

  it('lists every mistake, not only the first [task.strict]', async () => {
    const task = taskFile({ nam: 'x', limits: { timeout_ms: 0, max_fd: 1 }, args: 1 });
    const { stderr } = await spearRun([hello, '--task-config', task]);
    for (const text of ['"name"', 'limits.timeout_ms', '"max_fds"', 'args']) expect(stderr).toContain(text);
  });

  it('a file that is not there: named, and 125 [task.strict]', async () => {
    const { code, stderr } = await spearRun([hello, '--task-config', join(scratch, 'none.json')]);
    expect(code).toBe(125);
    expect(stderr).toBe(`spear-run: ${join(scratch, 'none.json')}: the task config cannot be read (ENOENT)\n`);
  });
});
