import { describe, expect, it } from 'vitest';
import { parseRunFlags } from '../../../src/cli/run/flags.ts';
import { runHelp } from '../../../src/cli/run/help.ts';
import { UsageError } from '../../../src/cli/usage-error.ts';

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
      '--sms-token: what follows begins with a dash',
    );
    expect(() => parseRunFlags(['a.wasm', '--sms-token', '-secret'])).not.toThrow('-secret');
    expect(parseRunFlags(['a.wasm', '--sms-token=-secret'])).toMatchObject({ smsToken: '-secret' });
  });

  it('is found before a help that is also asked for [cli.usage]', () => {
    expect(() => parseRunFlags(['--help', '--bogus-flag'])).toThrow('unknown option --bogus-flag');
  });
});

it('the help tells of every flag, and of no other', () => {
  const told = new Set([...runHelp.matchAll(/^ {2}(?:-\w, )?--([\w-]+)/gm)].map(([, flag]) => flag));
  for (const flag of told) {
    const argv = ['a.wasm', `--${flag}`];
    const values: Record<string, string> = {
      limit: 'max_fds=1',
      env: 'A=1',
      approve: 'deny',
      'audit-args': 'none',
      'audit-max-bytes': '0',
      'audit-keep': '1',
      'journal-sync': 'disk',
      stream: 'stdio',
      isolation: 'shared',
      parallel: '2',
    };
    const value = values[flag ?? ''] ?? 'value';
    // Those of --each go together.
    const each = ['--each', 'a.jsonl', '--results', 'b.jsonl'];
    const attempts = [argv, [...argv, value], [...argv, ...each], [...argv, value, ...each]];
    const accepted = attempts.some((attempt) => {
      try {
        return parseRunFlags(attempt) !== undefined;
      } catch {
        return false;
      }
    });
    expect(accepted, `--${flag} of the help is a flag`).toBe(true);
  }
  const known = Object.keys(parseRunFlags(['a.wasm'])).filter((key) => key !== 'wasm' && key !== 'guestArgs');
  known.push('results', 'parallel', 'skipDone'); // parts of `each`
  const kebab = (key: string) =>
    key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`).replace(/^limits$/, 'limit');
  expect([...told].sort()).toEqual([...known.map(kebab), 'help', 'version'].sort());
});

it('the help fits an ordinary terminal', () => {
  for (const line of runHelp.split('\n')) expect([...line].length, line).toBeLessThanOrEqual(120);
});
