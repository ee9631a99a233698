import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { recordDir, recordOf, taskWithMcp } from '../agent/mcp/mcp-run.ts';
import { auditLines } from '../server/audit/audit-schema.ts';
import { fixture, scratch, spearRun } from './spear-run.ts';
import { runOnTerminal } from './terminal-run.ts';

const features = { client_features: { elicitation: ['form', 'url'] } };
const records = recordDir({ 'asker.json': recordOf('asker', 'questions.mjs', features) });
const setup = [fixture('c/mcp.wasm'), ...taskWithMcp(['asker']), '--mcp-dir', records];
const call = (tool: string, args: object = {}) => ['--', 'asker', tool, JSON.stringify(args), '1'];
const answered = (file: string) =>
  auditLines(readFileSync(file, 'utf8')).filter(({ event }) => String(event).startsWith('elicitation.'));

describe('spear-run on a terminal', () => {
  it('asks what a server wants to know, and sends what was typed and confirmed [elicitation.prompt]', async () => {
    const audit = join(scratch, 'elicited.jsonl');
    const run = runOnTerminal([...setup, '--audit', audit, ...call('name')]);
    await run.shows('y to fill it in, n to decline, c to cancel');
    expect(run.screen).toContain('│ Who?');
    run.press('y');
    await run.shows('field 1 of 1');
    await run.shows('> ');
    run.press('Änn\u007fa\r');
    await run.shows('send it?');
    run.press('y');
    const { stdout, ...ended } = await run.finished();
    expect(ended).toEqual({ code: 0, restored: true });
    expect(stdout).toContain('\\"action\\":\\"accept\\",\\"content\\":{\\"name\\":\\"Äna\\"}');
    expect(answered(audit)).toMatchObject([
      { event: 'elicitation.asked', server_id: 'asker', tool_name: 'name', mode: 'form' },
      { event: 'elicitation.answered', action: 'accept', decided_by: 'terminal' },
    ]);
    expect(readFileSync(audit, 'utf8')).not.toContain('Äna');
  });

  it('shows an address and waits until it is done [elicitation.url]', async () => {
    const params = { mode: 'url', message: 'Log in.', url: 'https://login.example/x', elicitationId: '1' };
    const run = runOnTerminal([...setup, ...call('ask', { params })]);
    await run.shows('d when done');
    expect(run.screen).toContain('│ https://login.example/x');
    run.press('d');
    expect(await run.finished()).toMatchObject({ code: 0, restored: true, stdout: expect.stringContaining('accept') });
  });

  it('interrupts the run with Ctrl-C in the middle of an answer, cleanly [elicitation.cancel]', async () => {
    const run = runOnTerminal([...setup, ...call('name')]);
    await run.shows('y to fill it in');
    run.press('y');
    await run.shows('> ');
    run.press('half\u0003');
    expect(await run.finished()).toMatchObject({ code: 130, restored: true });
  });
});

it('spear-run without a terminal declines, and says so once [elicitation.no-user]', async () => {
  const audit = join(scratch, 'declined.jsonl');
  const { stdout, stderr } = await spearRun([...setup, '--audit', audit, ...call('name')]);
  expect(stdout).toContain('decline');
  expect(stderr.match(/no user is available to answer/g)).toHaveLength(1);
  expect(answered(audit)).toMatchObject([
    { event: 'elicitation.answered', mode: 'form', action: 'decline', decided_by: 'nobody' },
  ]);
});
