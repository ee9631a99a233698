import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { fill } from '../../scripts/markdown.ts';
import { allPages, blocksOf, readPage } from '../docs/pages.ts';
import { needsCommand } from '../support/needs.ts';
import { root, scratch } from './spear-run.ts';

const pages = allPages();
const readme = readPage('README.md').text;
const TEST_COMMAND = 'npm install && npm test';
const CLANG_INSTALL = 'apt-get install clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32';
/** Lines of a terminal: what has to be on the first screen is above. */
const FIRST_SCREEN = 24;

it('a page without its marks is an error, not a page without tables', () => {
  expect(fill('a\n<!-- x -->\nold\n<!-- /x -->\nb\n', 'x', 'new')).toBe('a\n<!-- x -->\n\nnew\n\n<!-- /x -->\nb\n');
  expect(() => fill('a\n', 'x', 'new')).toThrow('<!-- x -->');
});

it('the README has the two commands on its first screen, and .ci/run calls the second, the second tier and the guard of the bench [docs.commands]', () => {
  const screen = readme.split('\n').slice(0, FIRST_SCREEN).join('\n');
  expect(screen).toContain('```\nnpm install && npm run demo\n```');
  expect(screen).toContain(`\`\`\`\n${TEST_COMMAND}\n\`\`\``);
  const script = join(root, '.ci/run');
  expect(statSync(script).mode & 0o111).toBe(0o111);
  const calls = readFileSync(script, 'utf8').trimEnd().split('\n').slice(-4);
  expect(calls).toEqual([TEST_COMMAND, 'npm run engines', 'npm run test:all', 'npm run bench:check']);
});

it('the pages name only npm scripts that exist [docs.commands]', () => {
  const named = pages.flatMap(({ text }) => [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, name = '']) => name));
  expect(named).toEqual(expect.arrayContaining(['demo', 'bench', 'docs', 'check:imports']));
  for (const name of named) expect(Object.keys(packageJson.scripts)).toContain(name);
});

it('docs/RATIONALE.md has a line for every dependency', () => {
  const { text: why } = readPage('docs/RATIONALE.md');
  for (const name of Object.keys(packageJson.dependencies)) expect(why).toContain(`\`${name}\``);
});

const commands = pages.flatMap((page) => blocksOf(page, 'sh').map((block) => ({ path: page.path, block })));

it('there are commands to try', () => {
  expect(commands.length).toBeGreaterThanOrEqual(6);
});

it.for(commands)('$path: works as written: $block [docs.commands]', { timeout: 60_000 }, async (command, { skip }) => {
  const { block } = command;
  const missing = block.includes('clang-19') ? needsCommand('clang-19', CLANG_INSTALL) : undefined;
  if (missing !== undefined) skip(missing);
  // A checkout of its own: the commands write next to the examples.
  const checkout = join(scratch, `checkout-${commands.indexOf(command)}`);
  for (const folder of ['fixtures', 'guest-examples'])
    cpSync(join(root, folder), join(checkout, folder), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(checkout, 'node_modules'));
  const shell = spawn('bash', ['-euo', 'pipefail', '-c', block], {
    cwd: checkout,
    env: {
      PATH: process.env.PATH,
      HOME: scratch,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      npm_config_offline: 'true',
      npm_config_update_notifier: 'false',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
  });
  const [stdout, stderr, [code]] = await Promise.all([text(shell.stdout), text(shell.stderr), once(shell, 'close')]);
  expect(code, `${block}\n${stdout}\n${stderr}`).toBe(0);
  expect(stdout).not.toBe('');
});
