import { describe, expect, it } from 'vitest';
import { UsageError } from '../../../src/cli/exit-codes.ts';
import { parsedRun as parseRunFlags } from '../parsed.ts';

it('gives every flag a value, given or not', () => {
  expect(parseRunFlags(['a.wasm'])).toMatchObject({
    wasm: 'a.wasm',
    guestArgs: [],
    taskConfig: undefined,
    config: undefined,
    backend: undefined,
    script: undefined,
    mcpDir: undefined,
    strict: false,
    audit: undefined,
    auditArgs: undefined,
    auditMaxBytes: undefined,
    auditKeep: undefined,
    limits: {},
    env: {},
    allowUnknownImports: false,
    json: false,
    verbose: false,
    dryRun: false,
  });
});

it('takes flags before and after the module, with "=" or without', () => {
  const flags = parseRunFlags(['--json', '--config=c.toml', 'a.wasm', '-v', '--task-config', 't.json', '--dry-run']);
  expect(flags).toMatchObject({
    wasm: 'a.wasm',
    json: true,
    config: 'c.toml',
    verbose: true,
    taskConfig: 't.json',
    dryRun: true,
  });
});

it('leaves everything after -- to the guest, flags and another -- included [cli.guest-args]', () => {
  expect(parseRunFlags(['a.wasm', '--', '--help', '-v', '--', 'x'])).toMatchObject({
    wasm: 'a.wasm',
    verbose: false,
    guestArgs: ['--help', '-v', '--', 'x'],
  });
  expect(parseRunFlags(['a.wasm', '--'])).toMatchObject({ guestArgs: [] });
});

it('collects limits and variables, the last of a name wins', () => {
  const flags = parseRunFlags([
    'a.wasm',
    '--limit',
    'max_fds=5',
    '--limit',
    'timeout_ms=9',
    '--limit',
    'max_fds=6',
    '--env',
    'A=',
    '--env',
    'B=x=y',
    '--env',
    'A=2',
  ]);
  expect(flags).toMatchObject({ limits: { max_fds: 6, timeout_ms: 9 }, env: { A: '2', B: 'x=y' } });
});

it.each([
  [['--help'], 'help'],
  [['a.wasm', '-h', '--version'], 'help'],
  [['-V'], 'version'],
])('%j asks for the %s', (argv, expected) => {
  expect(parseRunFlags(argv)).toBe(expected);
});

describe('what is wrong', () => {
  it.each([
    [['a.wasm', '--verbos'], '--verbose'],
    [['a.wasm', '--jsn'], '--json'],
    [['a.wasm', '--taskconfig', 'x'], '--task-config'],
    [['a.wasm', '--dryrun'], '--dry-run'],
    [['a.wasm', '--limits', 'x'], '--limit'],
  ])('%j is answered with the flag that was meant [cli.usage]', (argv, meant) => {
    expect(() => parseRunFlags(argv)).toThrow(UsageError);
    expect(() => parseRunFlags(argv)).toThrow(`did you mean ${meant}?`);
  });

  it('that has a value with a leading dash is told how to write it [cli.usage]', () => {
    expect(() => parseRunFlags(['a.wasm', '--sms-token', '-secret'])).toThrow(
      '--sms-token: the value begins with a dash',
    );
    expect(() => parseRunFlags(['a.wasm', '--sms-token', '-secret'])).not.toThrow('-secret');
    expect(parseRunFlags(['a.wasm', '--sms-token=-secret'])).toMatchObject({ smsToken: '-secret' });
  });

  it('is found before a help that is also asked for [cli.usage]', () => {
    expect(() => parseRunFlags(['--help', '--bogus-flag'])).toThrow('unknown option --bogus-flag');
  });
});

describe('flags that do not go together', () => {
  it.each([
    [[], 'missing module'],
    [['a.wasm', '--journal', 'a', '--resume', 'b'], '--journal and --resume cannot be combined'],
    [['a.wasm', '--audit-args', 'all'], '--audit-args: expected redacted, sha256, shape or none, found "all"'],
    [['a.wasm', '--audit-max-bytes=-1'], 'expected a whole number from 0 to 1099511627776, found "-1"'],
    [['a.wasm', '--audit-keep', '0'], '--audit-keep: expected a whole number from 1 to 100000, found "0"'],
    [['a.wasm', '--isolation', 'none'], '--isolation: expected thread or shared, found "none"'],
  ])('%j', (argv, message) => {
    expect(() => parseRunFlags(argv)).toThrow(message);
  });

  it('are read where they do', () => {
    const argv = ['a.wasm', '--audit', 'x', '--audit-args', 'shape', '--audit-max-bytes', '0', '--audit-keep', '3'];
    expect(parseRunFlags(argv)).toMatchObject({ audit: 'x', auditArgs: 'shape', auditMaxBytes: 0, auditKeep: 3 });
  });
});
