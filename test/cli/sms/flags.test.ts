import { expect, it } from 'vitest';
import { parseSmsFlags } from '../../../src/cli/sms/flags.ts';

it('reads what to do', () => {
  expect(parseSmsFlags([])).toMatchObject({ kind: 'serve', dryRun: false });
  expect(parseSmsFlags(['--mcp-dir', 'd', '--strict', '--dry-run'])).toMatchObject({
    kind: 'serve',
    dryRun: true,
    flags: { registryDir: 'd', strict: true },
  });
  expect(parseSmsFlags(['--mcp-registry-dir', 'a', '--mcp-dir', 'b'])).toMatchObject({ flags: { registryDir: 'a' } });
  expect(parseSmsFlags(['backup', 'f', '--data', 'd'])).toMatchObject({
    kind: 'backup',
    file: 'f',
    flags: { data: 'd' },
  });
  expect(parseSmsFlags(['restore', 'f'])).toMatchObject({ kind: 'restore', file: 'f' });
  expect(parseSmsFlags(['--help', '--grpc', 'x'])).toBe('help');
  expect(parseSmsFlags(['-V'])).toBe('version');
});

it.each([
  [['--grcp', 'x'], 'unknown option --grcp; did you mean --grpc?'],
  [['--nothing-like-it'], 'unknown option --nothing-like-it; spear-sms --help lists them'],
  [['backp', 'x'], 'unknown command "backp"'],
  [['backup'], 'usage: spear-sms backup FILE'],
  [['restore', 'a', 'b'], 'usage: spear-sms restore FILE'],
  [['backup', 'a', '--dry-run'], '--dry-run does not go with backup'],
  [['--grpc'], 'argument missing'],
])('%j is bad usage', (argv, complaint) => {
  expect(() => parseSmsFlags(argv)).toThrow(complaint);
});
