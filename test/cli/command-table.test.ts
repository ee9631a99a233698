import { describe, expect, it } from 'vitest';
import { HELP_COLUMNS, helpText } from '../../src/cli/command-help.ts';
import { flagsOf, readCommandLine } from '../../src/cli/command-line.ts';
import type { Command, Program } from '../../src/cli/command-table.ts';
import { runProgramTable } from '../../src/cli/run/table.ts';
import { smsProgram } from '../../src/cli/sms/table.ts';
import { completions } from '../../src/cli/spear/completion.ts';
import { spearProgram } from '../../src/cli/spear/table.ts';
import { spearletProgram } from '../../src/cli/spearlet/table.ts';
import { parsed } from './parsed.ts';

const programs: readonly Program[] = [spearProgram, runProgramTable, smsProgram, spearletProgram];
const all = programs.flatMap((program) =>
  program.commands.map((command) => ({ program, command, path: command.path })),
);

/** As many arguments as the command needs, and the flags that it requires. */
function smallest({ path, args = '', flags, accepts }: Command): string[] {
  const given = args.split(' ').filter((name) => name !== '' && !name.startsWith('['));
  const required = Object.entries(flags).filter(([, spec]) => spec.required);
  const values = required.flatMap(([name, spec]) => [`--${name}`, spec.choices?.[0] ?? 'x']);
  const words = accepts === undefined ? given.map(() => 'x') : ['x.wasm'];
  return [...path.split(' ').slice(1), ...words, ...values];
}

describe.each(all)('$path', ({ program, command }) => {
  const help = () => helpText(program, command.path);

  it('has a help that names every flag, an example and exit codes', () => {
    for (const [name, { short, value }] of Object.entries(flagsOf(command))) {
      const label = `${short === undefined ? '' : `-${short}, `}--${name}${value === undefined ? '' : ` ${value}`}`;
      expect(help()).toContain(`\n  ${label}`);
    }
    expect(help()).toContain('\nUsage:\n  ');
    expect(help()).toContain('\nExamples:\n  ');
    expect(help()).toContain('\nExit codes:\n  ');
    for (const line of help().split('\n')) expect([...line].length, line).toBeLessThanOrEqual(HELP_COLUMNS);
  });

  it('is found by its words', () => {
    expect(parsed(program, smallest(command))).toMatchObject({ path: command.path });
    expect(parsed(program, [...smallest(command), '--help'])).toBe('help');
  });

  it('refuses flags that it does not list, also those of other commands [cli.table]', () => {
    const own = flagsOf(command);
    const others = new Set(programs.flatMap(({ commands }) => commands.flatMap(({ flags }) => Object.keys(flags))));
    for (const name of [...others, 'no-such-flag']) {
      if (Object.hasOwn(own, name)) continue;
      const read = () => readCommandLine(program, [...smallest(command), `--${name}`]);
      expect(read, `--${name}`).toThrow(`unknown option --${name} for "${command.path}"`);
    }
  });

  it('has an implementation', async () => {
    if (command.usageExitCode !== undefined) return; // loads the whole host
    expect(await command.load()).toBeTypeOf('function');
  });
});

describe('a flag of another command', () => {
  it('is refused with the flag, the command and the nearest valid flag [cli.table]', () => {
    const refused =
      (...argv: string[]) =>
      () =>
        readCommandLine(spearProgram, argv);
    expect(refused('nodes', 'ls', '--port', '3', '--journals')).toThrow(
      'unknown option --port for "spear nodes ls"; it is an option of "spear servers login"',
    );
    expect(refused('servers', 'ls', '--jsn')).toThrow(
      'unknown option --jsn for "spear servers ls"; did you mean --json?',
    );
    expect(refused('servers', 'ls', '--Zz.As9JifgJwmy8Eh6ZBG2R')).toThrow(
      'unknown option (not shown: it may be a secret) for "spear servers ls"; "spear servers ls --help" lists them',
    );
    expect(refused('run', 'hello', '--task-config', 'x')).toThrow('unknown option --task-config for "spear run"');
    expect(refused('run', 'hello.wasm', '--detach')).toThrow('unknown option --detach for "spear run"');
  });
});

describe('values of flags', () => {
  it('have types, ranges, choices and defaults', () => {
    const get = (...argv: string[]) => (parsed(spearProgram, argv) as { flags: object }).flags;
    expect(get('servers', 'ls')).toMatchObject({ json: false, sms: undefined, timeoutMs: 30_000 });
    expect(get('servers', 'test', 'a', '--allow-env', 'A', '--allow-env', 'B')).toMatchObject({ allowEnv: ['A', 'B'] });
    expect(get('approvals', 'ls')).toMatchObject({ status: 'waiting' });
    const wrong: [string[], string][] = [
      [['servers', 'ls', '--timeout-ms', '0'], '--timeout-ms: expected a whole number from 1 to 3600000, found "0"'],
      [['servers', 'ls', '--timeout-ms', 'soon'], 'found "soon"'],
      [['approvals', 'ls', '--status', 'open'], '--status: expected waiting, granted,'],
      [['tokens', 'create', 'a'], 'missing --role ROLE; usage: spear tokens create NAME --role ROLE [options]'],
      [['tokens', 'create', 'a', '--role', 'admin', '--role', 'king'], 'found "king"'],
      [['servers', 'ls', '--sms'], '--sms: missing value'],
      [['servers', 'ls', '--json=yes'], '--json: takes no value'],
      [['servers', 'ls', '--token', '-secret'], '--token: the value begins with a dash; write --token=VALUE'],
      [['servers', 'get'], 'missing ID; usage: spear servers get ID [options]'],
      [['servers', 'get', 'a', 'b'], 'unexpected argument "b"'],
      [['servers', 'ls', 'a'], 'unexpected argument "a"'],
    ];
    for (const [argv, message] of wrong) expect(() => readCommandLine(spearProgram, argv)).toThrow(message);
  });
});

it('takes flags before, between and after the words of a command', () => {
  for (const argv of [
    ['--sms', 'host:1', 'servers', 'get', 'a'],
    ['servers', '--sms', 'host:1', 'get', 'a'],
    ['servers', 'get', '--sms', 'host:1', 'a'],
  ]) {
    const { path, flags, args } = parsed(spearProgram, argv) as {
      path: string;
      flags: object;
      args: readonly string[];
    };
    expect({ path, args }).toEqual({ path: 'spear servers get', args: ['a'] });
    expect(flags).toMatchObject({ sms: 'host:1' });
  }
  expect(parsed(smsProgram, ['--data', 'd', 'backup', 'f'])).toMatchObject({ path: 'spear-sms backup', args: ['f'] });
});

describe('spear run', () => {
  it('is spear-run for a module, and a submission for a task [cli.run-file]', () => {
    const wasm = parsed(spearProgram, ['run', 'a.wasm', '--env', 'A=1', '--', '--help']);
    expect(wasm).toMatchObject({ flags: { env: ['A=1'] }, args: ['a.wasm'], rest: ['--help'] });
    expect(parsed(spearProgram, ['run', 'hello', '-d'])).toMatchObject({ flags: { detach: true }, args: ['hello'] });
  });
});

it('has the commands of spear-sms and spearlet under spear, with the same flags [cli.serve-aliases]', () => {
  const of = (path: string) => spearProgram.commands.find((entry) => entry.path === path)?.flags;
  const [serve, backup, restore, migrate] = smsProgram.commands;
  expect(of('spear registry serve')).toEqual(serve.flags);
  expect(of('spear registry backup')).toEqual(backup.flags);
  expect(of('spear registry restore')).toEqual(restore.flags);
  expect(of('spear registry migrate')).toEqual(migrate.flags);
  expect(of('spear node serve')).toEqual(spearletProgram.commands[0].flags);
});

describe('completion', () => {
  it('knows every command and every flag [cli.completion]', () => {
    const known = completions(programs);
    for (const { path, command } of all) {
      const above = path.split(' ').slice(0, -1).join(' ');
      if (above !== '') expect(known.get(above)?.words).toContain(path.split(' ').at(-1));
      expect(known.get(path)?.flags).toEqual(
        expect.arrayContaining(Object.keys(command.flags).map((name) => `--${name}`)),
      );
    }
  });
});
