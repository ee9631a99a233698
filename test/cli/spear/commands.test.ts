import { afterEach, describe, expect, it, vi } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };
import { subcommands } from '../../../src/cli/command-line.ts';
import { main } from '../../../src/cli/spear/main.ts';
import { spearProgram } from '../../../src/cli/spear/table.ts';

afterEach(() => vi.restoreAllMocks());

/** One command in this process, with what it wrote. */
async function spear(...argv: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const written = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const) {
    vi.spyOn(process[stream], 'write').mockImplementation((text) => {
      written[stream] += text;
      return true;
    });
  }
  const code = await main(argv);
  vi.restoreAllMocks();
  return { code, ...written };
}

const paths = [...new Set(spearProgram.commands.map(({ path }) => path))];
const words = subcommands(spearProgram, 'spear');

describe('help', () => {
  it.each(words)('on %s is had in each way of asking for it', async (word) => {
    const help = await spear('help', word);
    expect(help).toMatchObject({ code: 0, stderr: '' });
    expect(help.stdout).toMatch(new RegExp(`^spear ${word}: `));
    expect(help.stdout).toContain(`\nUsage:\n  spear ${word} `);
    expect(await spear(word, '--help')).toEqual(help);
    expect(await spear(word, '-h')).toEqual(help);
  });

  it('without a command lists all of them', async () => {
    const help = await spear('help');
    expect(await spear('--help')).toEqual(help);
    for (const path of paths) expect(help.stdout).toMatch(new RegExp(`^  ${path}\\b`, 'm'));
  });

  it('on a command has its flags and no others', async () => {
    const help = await spear('help', 'nodes', 'ls');
    expect(await spear('nodes', 'ls', '--help')).toEqual(help);
    expect(help.stdout).toContain('--timeout-ms MS');
    expect(help.stdout).not.toContain('--port');
  });
});

it('prints its version, and as a command those of its formats [cli.version]', async () => {
  const version = { code: 0, stdout: `spear ${packageJson.version}\n`, stderr: '' };
  for (const word of ['--version', '-V']) expect(await spear(word)).toEqual(version);
  const { stdout } = await spear('version');
  expect(stdout.startsWith(version.stdout)).toBe(true);
  for (const format of ['ABI', 'journal', 'runs.db', 'tasks.db', 'node backup', 'registry file', 'audit log']) {
    expect(stdout).toMatch(new RegExp(`^${format} +\\d`, 'm'));
  }
});

it.each([
  [['docter', 'task.wasm', '--task-config', 'x'], 'unknown command "spear docter"; did you mean "spear doctor"?'],
  [['audti'], 'unknown command "spear audti"; did you mean "spear audit"?'],
  [['componentise', 'a.wasm', '-o', 'b'], 'did you mean "spear componentize"?'],
  [['server', 'ls'], 'unknown command "spear server"; did you mean "spear servers"?'],
  [['servers', 'lst'], 'unknown command "spear servers lst"; did you mean "spear servers ls"?'],
  [['nodes', 'xyzzyx'], 'unknown command "spear nodes xyzzyx"; commands: ls'],
  [['servers'], 'missing command after "spear servers": ls, get,'],
  [[], 'missing command after "spear"; "spear --help" lists them'],
  [['help', 'docter'], 'unknown command "spear docter"; did you mean "spear doctor"?'],
  [['verison'], 'unknown command "spear verison"; did you mean "spear version"?'],
  [['qqqqqqqq'], 'unknown command "spear qqqqqqqq"; commands: servers,'],
  [['completion', 'csh'], 'expected bash, zsh, fish, found "csh"'],
])('%j is answered with what was meant', async (argv, complaint) => {
  const { code, stdout, stderr } = await spear(...argv);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain('spear: ');
  expect(stderr).toContain(complaint);
});

it.each(['bash', 'zsh', 'fish'])(
  'prints a completion script for %s with all four programs [cli.completion]',
  async (shell) => {
    const { code, stdout } = await spear('completion', shell);
    expect(code).toBe(0);
    for (const path of [...paths, 'spear-run', 'spear-sms backup', 'spearlet']) expect(stdout).toContain(`'${path}'`);
    expect(stdout).toContain(shell === 'fish' ? '-l mcp-registry-dir' : '--mcp-registry-dir');
  },
);
