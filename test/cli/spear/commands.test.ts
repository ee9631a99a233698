import { afterEach, describe, expect, it, vi } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };
import { commands, ownCommands } from '../../../src/cli/spear/commands.ts';
import { main } from '../../../src/cli/spear/main.ts';

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

const words = [...new Set([...[...commands.keys()].map((name) => name.split(' ', 1)[0] ?? ''), ...ownCommands.keys()])];

describe('help', () => {
  it.each(words)('on %s is had in each way of asking for it', async (word) => {
    const help = await spear('help', word);
    expect(help).toMatchObject({ code: 0, stderr: '' });
    expect(help.stdout).toMatch(new RegExp(`^spear ${word} `));
    expect(help.stdout).toContain(`\nUsage:\n  spear ${word} `);
    expect(await spear(word, '--help')).toEqual(help);
    expect(await spear(word, '-h')).toEqual(help);
  });

  it('without a command is that on all of them', async () => {
    const help = await spear('help');
    expect(await spear('--help')).toEqual(help);
    for (const name of [...commands.keys(), ...ownCommands.keys(), 'help', 'version']) {
      expect(help.stdout).toMatch(new RegExp(`^  spear ${name}\\b`, 'm'));
    }
  });

  it('on a verb is that on its command', async () => {
    const help = await spear('help', 'servers');
    expect(await spear('servers', 'ls', '--help')).toEqual(help);
    expect(await spear('help', 'servers', 'ls')).toEqual(help);
  });
});

it('tells its version as a word too', async () => {
  const version = { code: 0, stdout: `spear ${packageJson.version}\n`, stderr: '' };
  for (const word of ['version', '--version', '-V']) expect(await spear(word)).toEqual(version);
});

it.each([
  [['docter', 'task.wasm', '--task-config', 'x'], 'there is no "docter"; did you mean "doctor"?'],
  [['audti'], 'there is no "audti"; did you mean "audit"?'],
  [['componentise', 'a.wasm', '-o', 'b'], 'there is no "componentise"; did you mean "componentize"?'],
  [['server', 'ls'], 'there is no "server ls"; did you mean "servers ls"?'],
  [['server'], 'there is no "server"; did you mean "servers"?'],
  [['servers', 'lst'], 'there is no "servers lst"; did you mean "servers ls"?'],
  [['nodes', 'xyzzyx'], 'there is no "nodes xyzzyx"; there are nodes ls'],
  [['servers'], 'spear servers: what to do with them? there are servers ls, servers get,'],
  [['help', 'docter'], 'there is no "docter"; did you mean "doctor"?'],
  [['verison'], 'there is no "verison"; did you mean "version"?'],
  [['qqqqqqqq'], 'there is no "qqqqqqqq"; there are servers ls,'],
])('%j is answered with what was meant', async (argv, complaint) => {
  const { code, stdout, stderr } = await spear(...argv);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(`spear: ${complaint}`);
});
