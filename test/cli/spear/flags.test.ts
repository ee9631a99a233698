import { expect, it } from 'vitest';
import { parseSpearFlags } from '../../../src/cli/spear/flags.ts';
import { age, table } from '../../../src/cli/table.ts';

it('reads what to do, and with what', () => {
  const argv = ['servers', 'rm', 'a', '--json', 'b', '--sms', 'host:1', '--timeout-ms', '5', '--allow-env', 'X'];
  expect(parseSpearFlags(argv)).toMatchObject({
    noun: 'servers',
    verb: 'rm',
    args: ['a', 'b'],
    json: true,
    sms: 'host:1',
    timeoutMs: 5,
    allowEnv: ['X'],
  });
  expect(parseSpearFlags(['servers', '-h'])).toBe('help');
  expect(parseSpearFlags(['-V'])).toBe('version');
});

it.each([
  [[], 'what to do?'],
  [['servers'], 'spear servers: what to do with them?'],
  [['servers', 'ls', '--jsn'], 'unknown option --jsn; did you mean --json?'],
  [['servers', 'ls', '--timeout-ms', '0'], '--timeout-ms: expected a whole number'],
  [['servers', 'ls', '--timeout-ms', 'soon'], '--timeout-ms: expected a whole number'],
  [['servers', 'ls', '--token', 'a', '--token-file', 'b'], 'cannot be combined'],
])('%j is bad usage', (argv, complaint) => {
  expect(() => parseSpearFlags(argv)).toThrow(complaint);
});

it('lines up columns, and lets no control character through', () => {
  expect(
    table(
      ['ID', 'TEXT'],
      [
        ['long-id', 'a\u001b[31mb'],
        ['x', ''],
      ],
    ),
  ).toBe('ID       TEXT\nlong-id  a [31mb\nx\n');
});

it.each([
  [0, '0s'],
  [999, '0s'],
  [59_999, '59s'],
  [60_000, '1m'],
  [7_200_000, '2h'],
  [90_000_000, '1d'],
])('%d ms is %s', (ms, text) => {
  expect(age(ms)).toBe(text);
});
