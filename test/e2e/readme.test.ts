import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { fill } from '../../scripts/markdown.ts';
import { generatedPages } from '../../scripts/write-docs.ts';
import { root, scratch } from './spear-run.ts';

const readme = readFileSync(join(root, 'README.md'), 'utf8');
const TEST_COMMAND = 'npm install && npm test';

it.each(generatedPages())('$path is what npm run docs writes [docs.generated]', ({ path, text: expected }) => {
  expect(readFileSync(join(root, path), 'utf8') === expected, `${path} is stale: run npm run docs`).toBe(true);
});

it('a page without its marks is an error, not a page without tables [docs.generated]', () => {
  expect(fill('a\n<!-- x -->\nold\n<!-- /x -->\nb\n', 'x', 'new')).toBe('a\n<!-- x -->\n\nnew\n\n<!-- /x -->\nb\n');
  expect(() => fill('a\n', 'x', 'new')).toThrow('<!-- x -->');
});

it('has the two commands, and .ci/run calls the second and the guard of the bench [docs.commands]', () => {
  expect(readme).toContain('```\nnpm install && npm run demo\n```');
  expect(readme).toContain(`\`\`\`\n${TEST_COMMAND}\n\`\`\``);
  const script = join(root, '.ci/run');
  expect(statSync(script).mode & 0o111).toBe(0o111);
  const calls = readFileSync(script, 'utf8').trimEnd().split('\n').slice(-2);
  expect(calls).toEqual([TEST_COMMAND, 'npm run bench:check']);
});

it('names only npm scripts that exist [docs.commands]', () => {
  const named = [...readme.matchAll(/npm run ([\w:-]+)/g)].map(([, name = '']) => name);
  expect(named).toEqual(expect.arrayContaining(['demo', 'bench', 'docs', 'check:imports']));
  for (const name of named) expect(Object.keys(packageJson.scripts)).toContain(name);
});

it('has a line for every dependency [docs.commands]', () => {
  for (const name of Object.keys(packageJson.dependencies)) expect(readme).toContain(`\`${name}\``);
});

it('links only to files that exist [docs.commands]', () => {
  const targets = [...readme.matchAll(/\]\((?!https?:|#)([^)]+)\)/g)].map(([, target = '']) => target);
  expect(targets.length).toBeGreaterThan(0);
  for (const target of targets) expect(() => statSync(join(root, target)), target).not.toThrow();
});

const blocks = [...readme.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) => block);

it.each(blocks)('works as written: %s [docs.commands]', { timeout: 60_000 }, async (block) => {
  if (block.includes('clang-19') && spawnSync('clang-19', ['--version']).status !== 0) {
    if (process.env.CI) throw new Error('clang-19 is missing: in CI nothing is skipped');
    process.stderr.write('\n!!! SKIPPED: clang-19 is missing, so the C command of the README was not run\n\n');
    return;
  }
  // A checkout of its own: the commands write next to the examples.
  const checkout = join(scratch, `checkout-${blocks.indexOf(block)}`);
  for (const folder of ['fixtures', 'guest-examples'])
    cpSync(join(root, folder), join(checkout, folder), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(checkout, 'node_modules'));
  const shell = spawn('bash', ['-euo', 'pipefail', '-c', block], {
    cwd: checkout,
    env: { PATH: process.env.PATH, HOME: scratch, npm_config_offline: 'true', npm_config_update_notifier: 'false' },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
  });
  const [stdout, stderr, [code]] = await Promise.all([text(shell.stdout), text(shell.stderr), once(shell, 'close')]);
  expect(code, `${block}\n${stdout}\n${stderr}`).toBe(0);
  expect(stdout).not.toBe('');
});

it('has commands to try [docs.commands]', () => {
  expect(blocks.length).toBeGreaterThanOrEqual(3);
});
