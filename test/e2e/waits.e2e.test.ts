import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { recordDir, recordOf, script, taskWithMcp } from '../agent/mcp/mcp-run.ts';
import { fixture, spearRun as runCommand, scratch } from './spear-run.ts';
import { runOnTerminal } from './terminal-run.ts';

vi.setConfig({ testTimeout: 60_000 });

const spearRun = (args: readonly string[]) => runCommand(args, { waits: true });
const chat = fixture('c/chat.wasm');
const slow = join(scratch, 'slow.json');
writeFileSync(slow, JSON.stringify({ turns: [{ reply: { content: 'At last.' }, delay_ms: 3_500, repeat: true }] }));
const line = 'spear-run: waiting for a response of backend "script" (scripted) (2 s)';

describe('a model that takes its time', () => {
  it('is one plain line on stderr where that is no terminal, and none on stdout [cli.waits]', async () => {
    const { stdout, stderr } = await spearRun([chat, '--script', slow]);
    expect({ stdout, stderr }).toEqual({ stdout: 'At last.\n', stderr: `${line}\n` });
    const json = await spearRun([chat, '--script', slow, '--json']);
    expect(JSON.parse(json.stdout)).toMatchObject({ exit_code: 0 });
    expect(json.stderr).toContain(`${line}\n`);
  });

  it('is a line that counts and goes away on a terminal [cli.waits]', async () => {
    const run = runOnTerminal([chat, '--script', slow], { env: { TERM: 'xterm' } });
    await run.shows(`\r\u001b[K${line}`);
    await run.shows(`\r\u001b[K${line.replace('2 s', '3 s')}`);
    expect(await run.finished()).toMatchObject({ code: 0, stdout: 'At last.\n' });
    expect(run.screen.endsWith('\r\u001b[K')).toBe(true);
    expect(run.screen).not.toContain('\n');
  });
});

it('a server that is slow to list its tools is named [cli.waits]', async () => {
  const dir = recordDir({ 'slow.json': recordOf('slow', 'lists.mjs', { args: ['slow', '2500'] }) });
  const flags = [...taskWithMcp(['slow']), '--mcp-dir', dir];
  const { code, stderr } = await spearRun([fixture('c/files.wasm'), ...flags]);
  expect(code).toBe(0);
  expect(stderr).toContain('spear-run: waiting for server "slow" to list its tools (2 s, at most 13 s more)\n');
});

it('nothing of it is shown while a question is open, and it is afterwards [cli.waits]', async () => {
  const dir = recordDir({
    'mid.json': recordOf('mid', 'mid-call.mjs', { budgets: { tool_timeout_ms: 6_000 } }),
    'tiny.json': recordOf('tiny', 'tiny.mjs', { approval_policy: { default: 'always' } }),
  });
  const calls = [
    { id: 'a', name: 'mid_hang', arguments: {} },
    { id: 'b', name: 'tiny_echo', arguments: { message: 'hi' } },
  ];
  const model = script({ when: { role: 'user' }, reply: { tool_calls: calls } }, { reply: { content: 'done' } });
  const task = taskWithMcp(['mid', 'tiny'], { 'mcp.tool_naming': 'readable' });
  const limit = ['--limit', 'approval_timeout_ms=4000'];
  const run = runOnTerminal([fixture('c/files.wasm'), ...task, ...model, '--mcp-dir', dir, ...limit], {
    env: { TERM: 'xterm' },
  });
  await run.shows('allow it?');
  await run.shows('waiting for tool "hang" of server "mid"');
  const [, afterQuestion = ''] = run.screen.split('allow it?');
  // The question was answered by its deadline, and its line finished, before anything else was written.
  expect(afterQuestion.indexOf('\n')).toBeGreaterThan(0);
  expect(afterQuestion.indexOf('waiting for')).toBeGreaterThan(afterQuestion.indexOf('\n'));
  expect((await run.finished()).code).toBe(0);
});

describe('a registry that does not answer', () => {
  const mute = createServer(() => {}).listen(0, '127.0.0.1');
  afterAll(() => mute.close());

  it('is waited for aloud [cli.waits]', async () => {
    const address = mute.address();
    const sms = `127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
    const { stderr } = await spearRun([
      fixture('c/files.wasm'),
      ...taskWithMcp(['a']),
      '--sms',
      sms,
      '--sms-token',
      'a-token',
    ]);
    expect(stderr).toContain(
      `spear-run: waiting for the first snapshot of the registry at ${sms} (2 s, at most 3 s more)\n`,
    );
  });
});
