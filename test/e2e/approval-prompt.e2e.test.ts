import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { npmServer } from '../agent/mcp/client/pool-records.ts';
import { fileWith, recordDir, recordOf, script, taskWithMcp } from '../agent/mcp/mcp-run.ts';
import { auditLines } from '../server/audit/audit-schema.ts';
import { fixture, scratch, spearRun } from './spear-run.ts';
import { runOnTerminal } from './terminal-run.ts';

const mcp = fixture('c/mcp.wasm');
const asking = (mode = 'always') => ({ approval_policy: { default: mode } });
const tiny = (mode?: string) => ['--mcp-dir', recordDir({ 'tiny.json': recordOf('tiny', 'tiny.mjs', asking(mode)) })];
const echo = (message: string, calls = 1) => ['--', 'tiny', 'echo', JSON.stringify({ message }), String(calls)];
const setup = (config = {}, mode?: string) => [mcp, ...taskWithMcp(['tiny'], config), ...tiny(mode)];
const QUESTION = 'allow it? y once, s for this session, n to deny';
const echoed = '{"content":[{"text":"hi","type":"text"}]}';

describe('spear-run on a terminal', () => {
  it.each([
    ['y', 0, echoed, 'allowed once'],
    ['n', 3, 'mcp_approval_denied', 'denied'],
  ])('asks before the call, and %s decides [approval.cli]', async (key, code, said, shown) => {
    const audit = join(scratch, `prompt-${code}.jsonl`);
    const run = runOnTerminal([...setup(), '--audit', audit, ...echo('hi')]);
    await run.shows(QUESTION);
    expect(run.screen).toMatch(/server {2}tiny\r\n {2}tool {4}echo\r\n/);
    expect(run.screen).toContain('every call needs an approval');
    expect(run.screen).toContain('"message": "hi"');
    run.press(key);
    const { stdout, ...ended } = await run.finished();
    expect(ended).toEqual({ code, restored: true });
    expect(stdout).toContain(said);
    expect(run.screen).toContain(`: ${shown}\r\n`);
    const lines = auditLines(readFileSync(audit, 'utf8'));
    expect(lines.filter(({ event }) => String(event).startsWith('approval.'))).toMatchObject([
      { event: 'approval.asked', server_id: 'tiny', tool_name: 'echo' },
      { event: 'approval.decided', decided_by: 'terminal', status: key === 'y' ? 'allowed' : 'denied' },
    ]);
  });

  it('asks once where it is allowed for the session, also for calls that wait already', async () => {
    const run = runOnTerminal([...setup(), ...echo('hi', 20)]);
    await run.shows(QUESTION);
    run.press('s');
    const { stdout, ...ended } = await run.finished();
    expect(ended).toEqual({ code: 0, restored: true });
    expect(stdout).toContain('20 calls, 0 failed');
    expect(run.screen.split('allow it?')).toHaveLength(2);
  });

  it('asks about calls one after the other', async () => {
    const run = runOnTerminal([...setup(), ...echo('hi', 3)]);
    for (const [index, key] of ['y', 'n', 'y'].entries()) {
      await run.shows(QUESTION, index + 1);
      run.press(key);
    }
    expect(await run.finished()).toMatchObject({
      code: 3,
      restored: true,
      stdout: expect.stringContaining('3 calls, 1 failed'),
    });
  });

  it('writes no control characters of the arguments to the terminal [approval.prompt.escapes]', async () => {
    const bad = '\u001b]0;owned\u0007\u001b[2J\u009b31m\u202e';
    const run = runOnTerminal([...setup(), ...echo(bad)]);
    await run.shows(QUESTION);
    // Only our own: back to plain text.
    const screen = run.screen.replaceAll('\u001b[0m\u001b(B', '');
    for (const character of ['\u001b', '\u0007', '\u009b', '\u202e']) expect(screen).not.toContain(character);
    expect(run.screen).toContain('\\u001b]0;owned');
    run.press('n');
    expect(await run.finished()).toMatchObject({ code: 3, restored: true });
  });

  it('interrupts the run with Ctrl-C, cleanly', async () => {
    const run = runOnTerminal([...setup(), ...echo('hi')]);
    await run.shows(QUESTION);
    run.press('\u0003');
    expect(await run.finished()).toEqual({ code: 130, restored: true, stdout: 'tiny offers 5 tools\n' });
    expect(run.screen).toContain(': interrupted\r\n');
  });

  it.each([
    ['SIGTERM', 143, 1],
    ['SIGTERM', 143, 2],
    ['SIGHUP', 129, 1],
    ['SIGINT', 130, 2],
  ] as const)(
    'restores the terminal on %s from elsewhere, exit code %i, sent %i times',
    async (signal, code, times) => {
      const pid = join(scratch, `pid-${signal}-${times}`);
      const run = runOnTerminal([...setup(), ...echo('hi')], { pid });
      await run.shows(QUESTION);
      for (let i = 0; i < times; i++) process.kill(Number(readFileSync(pid, 'utf8')), signal);
      expect(await run.finished()).toMatchObject({ code, restored: true });
    },
  );

  it('denies without an answer in time, finishes its line, and the guest goes on [approval.timeout]', async () => {
    const run = runOnTerminal([...setup(), '--limit', 'approval_timeout_ms=4000', ...echo('hi')]);
    await run.shows(QUESTION);
    expect(await run.finished()).toMatchObject({
      code: 3,
      restored: true,
      stdout: expect.stringContaining('no approval within 4000 ms (approval_timeout_ms)'),
    });
    expect(run.screen).toContain(': no decision within 4000 ms; denied\r\n');
  });

  it('asks on the terminal while the guest owns stdin, whatever that is', async () => {
    const turns = script(
      { when: { role: 'user' }, reply: { tool_calls: [{ id: 'a', name: 'tiny_echo', arguments: { message: 'hi' } }] } },
      { when: { tool_call_id: 'a', content: { contains: 'hi' } }, reply: { content: 'it said hi' } },
    );
    const flags = [fixture('c/files.wasm'), ...taskWithMcp(['tiny']), ...tiny(), ...turns, '--', 'say hi'];
    const run = runOnTerminal(flags, { stdin: fileWith('input', 'yyyy\nssss\n') });
    await run.shows(QUESTION);
    run.press('y');
    expect(await run.finished()).toMatchObject({
      code: 0,
      restored: true,
      stdout: expect.stringContaining('it said hi'),
    });
  });

  it('shows a write of the real file system server before it is done', async () => {
    const record = {
      server_id: 'fs',
      transport: 'stdio',
      stdio: { command: process.execPath, args: [npmServer('filesystem'), scratch] },
      allowed_tools: ['*'],
      approval_policy: { default: 'never', per_tool: { 'write_*': 'always' } },
    };
    const path = join(scratch, 'written.txt');
    const args = ['--', 'fs', 'write_file', JSON.stringify({ path, content: 'by a guest' })];
    const run = runOnTerminal([mcp, ...taskWithMcp(['fs']), '--mcp-dir', recordDir({ 'fs.json': record }), ...args]);
    await run.shows(QUESTION);
    expect(run.screen).toContain('description by the server:');
    expect(run.screen).toContain('"content": "by a guest"');
    run.press('y');
    expect(await run.finished()).toMatchObject({ code: 0, restored: true });
    expect(readFileSync(path, 'utf8')).toBe('by a guest');
  });
});

it('the words of a server cannot repaint the question [approval.cli]', async () => {
  const records = recordDir({ 'painter.json': recordOf('painter', 'painter.mjs', asking()) });
  const run = runOnTerminal([
    mcp,
    ...taskWithMcp(['painter']),
    '--mcp-dir',
    records,
    '-v',
    '--',
    'painter',
    'echo',
    '{}',
    '1',
  ]);
  await run.shows(QUESTION);
  run.press('n');
  expect(await run.finished()).toMatchObject({ code: 3, restored: true });
  expect(run.screen).toContain('\\u{1b}[2J\\u{1b}[H\\u{202e}spear-run: allow it to read the weather? y');
  expect(run.screen).not.toContain('\u001b[2J');
  expect(run.screen).not.toContain('\u202e');
});

describe('spear-run --approve', () => {
  it('deny asks nobody, also on a terminal [approval.cli]', async () => {
    const run = runOnTerminal([...setup(), '--approve', 'deny', ...echo('hi')]);
    expect(await run.finished()).toMatchObject({
      code: 3,
      stdout: expect.stringContaining('no approver is available'),
    });
    expect(run.screen).not.toContain('allow it?');
  });

  it('deny says on stderr what was denied, once per tool, and how to allow it [approval.denied]', async () => {
    const { stderr, stdout } = await spearRun([...setup(), '--approve', 'deny', ...echo('hi', 3)]);
    expect(stdout).toContain('3 calls, 3 failed');
    expect(
      stderr.match(/approval denied: tiny echo needs an approval, and no user can be asked \(--approve deny\)/g),
    ).toHaveLength(1);
    expect(stderr).toContain('To allow it, run spear-run in a terminal or with --approve sms');
  });

  it('is refused where it is neither [approval.cli]', async () => {
    const { code, stderr } = await spearRun([...setup(), '--approve', 'maybe', ...echo('hi')]);
    expect([code, stderr]).toEqual([125, 'spear-run: --approve: expected prompt, sms or deny, found "maybe"\n']);
  });
});

describe('approval rules of a run', () => {
  const rule = { tools: ['echo'], arguments: [{ path: '/message', pattern: 'h?' }], verdict: 'allow' };
  const deny = (...more: string[]) => [...more, '--approve', 'deny'];

  it('of the task let a call through that nobody has to approve [approval.cli]', async () => {
    const flags = deny(...setup({ 'mcp.approval_rules': [rule] }, 'policy'));
    expect(await spearRun([...flags, ...echo('hi')])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(echoed),
    });
    expect((await spearRun([...flags, ...echo('bye')])).stdout).toContain('mcp_approval_denied');
  });

  it('of the node deny what the task allows', async () => {
    const toml = '[[mcp.approval_rules]]\nname = "quiet"\nservers = ["tiny"]\ntools = ["echo"]\nverdict = "deny"\n';
    const config = ['--config', fileWith('config.toml', toml)];
    const flags = deny(...setup({ 'mcp.approval_rules': [rule] }, 'policy'), ...config);
    expect((await spearRun([...flags, ...echo('hi')])).stdout).toContain(
      'denied by \\"quiet\\" of the node\'s approval rules',
    );
  });

  it.each([
    ['task', 'config.mcp.approval_rules[0].verdict: must be "allow", "deny" or "ask"'],
    ['node', 'mcp.approval_rules[0].tool: is not a valid key; did you mean "tools"?'],
  ])('of the %s that are wrong are named with file and field before the start', async (layer, message) => {
    const task = layer === 'task' ? { 'mcp.approval_rules': [{ verdict: 'perhaps' }] } : {};
    const file = fileWith('config.toml', '[[mcp.approval_rules]]\ntool = ["echo"]\nverdict = "deny"\n');
    const flags = [...setup(task, 'policy'), ...(layer === 'node' ? ['--config', file] : [])];
    const { code, stderr, stdout } = await spearRun([...flags, ...echo('hi')]);
    expect([code, stdout]).toEqual([125, '']);
    const named = layer === 'node' ? file : flags[flags.indexOf('--task-config') + 1];
    expect(stderr).toContain(`${named}: ${message}`);
  });
});
