import { describe, expect, it } from 'vitest';
import { parseTailFlags } from '../../../src/cli/audit/tail.ts';
import { readCommandLine } from '../../../src/cli/command-line.ts';
import { UsageError } from '../../../src/cli/exit-codes.ts';
import { spearProgram } from '../../../src/cli/spear/table.ts';
import { auditJson } from '../../../src/server/audit/line-json.ts';
import { samples } from '../../server/audit/audit-samples.ts';

const now = new Date('2026-02-03T12:00:00.000Z');
const minutesAgo = (minutes: number) => new Date(now.getTime() - minutes * 60_000);
const [, , , , , finished] = samples;

const lines = [
  auditJson('one', 'run-1', { ...finished, request_id: 'a' }, minutesAgo(60)),
  auditJson('one', 'run-1', { ...finished, request_id: 'b', server_id: 'db', tool_name: 'read_rows' }, minutesAgo(10)),
  auditJson('two', 'run-2', { ...finished, request_id: 'c', session_id: 'chat-2', status: 'denied' }, minutesAgo(5)),
  auditJson(null, 'run-2', { ...samples[9] }, minutesAgo(0)),
].map((text) => JSON.parse(text) as Record<string, unknown>);

const found = (values: Parameters<typeof parseTailFlags>[0]) =>
  lines.filter(parseTailFlags(values, now).matches).map(({ request_id }) => request_id ?? 'budget');

describe('what spear audit tail shows', () => {
  it.each<[Parameters<typeof parseTailFlags>[0], string[]]>([
    [{}, ['a', 'b', 'c', 'budget']],
    [{ server: 'db' }, ['b']],
    [{ tool: 'read_*' }, ['b']],
    [{ tool: 'read*' }, ['a', 'b', 'c']],
    [{ tool: 'rea?' }, ['a', 'c']],
    [{ session: 'chat-2' }, ['c']],
    [{ task: 'one' }, ['a', 'b']],
    [{ instance: 'run-2' }, ['c', 'budget']],
    [{ event: 'budget.hit' }, ['budget']],
    [{ event: 'tool_call.*' }, ['a', 'b', 'c']],
    [{ status: 'denied' }, ['c']],
    [{ since: '15m' }, ['b', 'c', 'budget']],
    [{ since: '300s' }, ['c', 'budget']],
    [{ since: '1h' }, ['a', 'b', 'c', 'budget']],
    [{ since: '2026-02-03T11:55:00Z' }, ['c', 'budget']],
    [{ since: '2026-02-03T12:55:00+01:00' }, ['c', 'budget']],
    [{ since: '2026-02-03' }, ['a', 'b', 'c', 'budget']],
    [{ since: '15m', server: 'fs' }, ['c']],
  ])('%j', (values, expected) => {
    expect(found(values)).toEqual(expected);
  });

  it.each<[string | undefined, number]>([
    [undefined, 20],
    ['0', 0],
    ['7', 7],
    ['all', 1_000_000],
  ])('-n %s is %i lines', (text, expected) => {
    expect(parseTailFlags(text === undefined ? {} : { lines: text }, now).lines).toBe(expected);
  });
});

describe('spear audit', () => {
  it.each<[string, string[], string]>([
    ['a file that is not there', ['verify', '/nowhere/audit.jsonl'], '/nowhere/audit.jsonl: cannot be read (ENOENT)'],
    [
      'no file at all',
      ['verify', '--config', '/nowhere/config.toml'],
      '/nowhere/config.toml: the config file cannot be read',
    ],
    ['half a flag', ['tail', 'x', '--since'], '--since: missing value'],
    ['a flag that does not exist', ['verify', 'x', '--jsn'], '"spear audit verify"; did you mean --json?'],
    ['a misspelled verb', ['verfy', 'x'], 'unknown command "spear audit verfy"; did you mean "spear audit verify"?'],
    ['another verb', ['show', 'x'], 'unknown command "spear audit show"; commands: verify, tail'],
    [
      'a number that is none',
      ['tail', 'x', '-n', 'ten'],
      '-n: expected a whole number from 0 to 1000000, or "all", found "ten"',
    ],
    ['a time that is none', ['tail', 'x', '--since', 'noon'], '--since: expected a time such as'],
    ['two files to follow', ['tail', 'x', 'y'], 'unexpected argument "y"; usage: spear audit tail [FILE]'],
    ['a file to follow that is not there', ['tail', '/nowhere/audit.jsonl'], 'cannot be read (ENOENT)'],
  ])('refuses %s', async (_, args, message) => {
    const refused = await run(args).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(UsageError);
    expect((refused as Error).message).toContain(message);
  });
});

async function run(args: readonly string[]): Promise<unknown> {
  const request = readCommandLine(spearProgram, ['audit', ...args]);
  return request.kind === 'run' && (await request.call.command.load())(request.call);
}
