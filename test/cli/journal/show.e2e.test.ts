import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { headerOf, journalWith, newFile, recordTools, SECRET, scratch } from '../../runtime/durable/recorded-runs.ts';
import { builtCommand } from '../../support/built-command.ts';

const tools = newFile();
let printed = '';
beforeAll(async () => {
  printed = await recordTools(tools);
});

function spear(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [builtCommand('spear'), 'journal', ...args], {
    encoding: 'utf8',
    cwd: scratch,
  });
  return { status, stdout, stderr };
}

const HOSTILE = '\u001b]0;owned\u0007\u001b[2J\u009b31m\u202eevil\u{e0041}';

describe('spear journal show', () => {
  it('prints what happened, each thing with its time [journal.show]', () => {
    const { status, stdout, stderr } = spear('show', tools);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toMatch(/3 model turns in .*, 120 tokens in, 30 out, 4 tool calls in .*, 2 approvals in /);
    expect(stdout).toContain('ended: exit 0');
    expect(stdout).toMatch(/^ +\d+\.\d{3} s .* model +\S+ \S+, turn 1 · 120 tokens in, 30 out$/m);
    expect(stdout).toMatch(/ tool +tiny pid · mcp_approval_denied$/m);
    expect(stdout).toMatch(/ approval +tiny pid: deny by alice · .*not today$/m);
    expect(stdout).toMatch(/arguments: \{"api_key":"\[redacted\]","message":"hi"\}$/m);
    expect(stdout).toContain('It said <b>hi</b>.');
    expect(printed).toContain('It said <b>hi</b>.');
    expect(stdout).not.toContain(SECRET);
  });

  it('lets nothing of what it shows reach the terminal as a command [journal.show]', () => {
    const args = JSON.stringify({ [HOSTILE]: HOSTILE });
    const call = { t: 'tool.started', ordinal: '7', attempt: 1, server: HOSTILE, tool: HOSTILE, args, ms: 1 };
    const output = { t: 'output', fd: 'stdout', at: 0, b: Buffer.from(`a\n${HOSTILE}\n`).toString('base64'), ms: 2 };
    const header = { ...headerOf(tools), run: HOSTILE, task: HOSTILE, args: [HOSTILE], env: { [HOSTILE]: '' } };
    const file = journalWith(header, [call, output], '{"half');
    for (const how of [[], ['--json'], ['--full']]) {
      const { status, stdout } = spear('show', file, ...how);
      expect(status).toBe(0);
      expect(stdout.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
      expect(stdout).toContain('evil');
    }
    expect(JSON.parse(spear('show', file, '--json').stdout)).toMatchObject({
      run: HOSTILE,
      ended: null,
      torn_bytes: 6,
    });
    const { stdout } = spear('show', file);
    expect(stdout).toContain('the last 6 bytes are an incomplete write (crash)');
    expect(stdout).toContain('outcome unknown: the call was sent');
  });

  it('cuts long texts and says so, and shows all of them with --full [journal.show.masked]', () => {
    const long = `${'word '.repeat(2_000)}token=${SECRET} last`;
    const body = { choices: [{ message: { content: long } }] };
    const asked = { t: 'model.asked', call: 1, n: 0, backend: 'b', model: null, ms: 1 };
    const file = journalWith(headerOf(tools), [asked, { t: 'model.answered', call: 1, n: 0, body, ms: 2 }]);
    const cut = spear('show', file).stdout;
    expect(cut).toContain(`(truncated, ${long.length} characters in all)`);
    expect(cut.length).toBeLessThan(3_000);
    expect(spear('show', file, '--full').stdout).toContain('word token=[redacted] last');
  });

  it('refuses a journal that does not verify, and names the line [journal.show]', () => {
    const edited = newFile();
    writeFileSync(edited, readFileSync(tools, 'utf8').replace('What is there?', 'What is here?!'));
    for (const verb of ['show', 'script']) {
      const { status, stdout, stderr } = spear(verb, edited);
      expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
      expect(stderr).toMatch(/line \d+: the block was changed or damaged/);
    }
    expect(spear('show', join(scratch, 'none')).stderr).toContain('cannot read the journal (ENOENT)');
  });

  it.each([
    [['show']],
    [['show', tools, 'out.html']],
    [['show', tools, '--html']],
    [['script', tools, '-o', tools]],
    [['script']],
    [['shwo', tools]],
  ])('knows bad usage: %j', (args) => {
    const before = readFileSync(tools, 'utf8');
    expect(spear(...args)).toMatchObject({ status: 2, stdout: '' });
    expect(readFileSync(tools, 'utf8')).toBe(before);
  });
});

describe('spear journal script', () => {
  it('makes a script that answers the run again, with live tools [journal.script]', async () => {
    const out = join(scratch, 'script.json');
    expect(spear('script', tools, '-o', out)).toEqual({ status: 0, stdout: '', stderr: '' });
    expect(statSync(out).mode & 0o777).toBe(0o600);
    const script = JSON.parse(readFileSync(out, 'utf8'));
    expect(script.turns.map((turn: { when: object }) => turn.when)).toEqual([
      { role: 'user' },
      { role: 'tool', tool_call_id: 'b' },
      { role: 'tool', tool_call_id: 'd' },
    ]);
    expect(spear('script', tools).stdout).toBe(readFileSync(out, 'utf8'));
    const again = newFile();
    expect(await recordTools(again, script.turns)).toBe(printed);
    expect(existsSync(again)).toBe(true);
  });

  it('says that there is none where no model answered', () => {
    const { status, stderr } = spear('script', journalWith(headerOf(tools), []));
    expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining('the run has no model turns') });
  });
});
