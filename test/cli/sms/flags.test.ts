import { expect, it } from 'vitest';
import { smsProgram } from '../../../src/cli/sms/table.ts';
import { parsed } from '../parsed.ts';

const sms = (...argv: string[]) => parsed(smsProgram, argv);

it('reads the command and its flags', () => {
  expect(sms()).toMatchObject({ path: 'spear-sms', flags: { dryRun: false } });
  expect(sms('--mcp-dir', 'd', '--strict', '--dry-run')).toMatchObject({
    path: 'spear-sms',
    flags: { mcpDir: 'd', strict: true, dryRun: true },
  });
  expect(sms('backup', 'f', '--data', 'd')).toMatchObject({
    path: 'spear-sms backup',
    args: ['f'],
    flags: { data: 'd' },
  });
  expect(sms('restore', 'f')).toMatchObject({ path: 'spear-sms restore', args: ['f'] });
  expect(sms('migrate', '--from', 'a', '--to', 'b')).toMatchObject({ flags: { from: 'a', to: 'b' } });
  expect(sms('--help', '--grpc', 'x')).toBe('help');
  expect(sms('-V')).toBe('version');
});

it.each([
  [['--grcp', 'x'], 'unknown option --grcp for "spear-sms"; did you mean --grpc?'],
  [['--nothing-like-it'], 'unknown option --nothing-like-it for "spear-sms"; "spear-sms --help" lists them'],
  [['backp', 'x'], 'unknown command "spear-sms backp"; did you mean "spear-sms backup"?'],
  [['backup'], 'missing FILE; usage: spear-sms backup FILE [options]'],
  [['restore', 'a', 'b'], 'unexpected argument "b"; usage: spear-sms restore FILE'],
  [['backup', 'a', '--dry-run'], 'unknown option --dry-run for "spear-sms backup"; it is an option of "spear-sms"'],
  [['migrate', '--from', 'a'], 'missing --to PLACE'],
  [['--from', 'a'], 'unknown option --from for "spear-sms"; it is an option of "spear-sms migrate"'],
  [['--grpc'], '--grpc: missing value'],
])('%j is bad usage', (argv, complaint) => {
  expect(() => sms(...argv)).toThrow(complaint);
});
