import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, realpathSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { needs } from '../support/needs.ts';
import { fixture, projectNode, root, scratch, spearRun } from './spear-run.ts';

const LEAST_MAJOR = 24;

/** A Node below the least version on this machine, outside the project. */
function oldNode(): { path: string; version: string } | undefined {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(folder, 'node');
    if (folder === '' || !existsSync(path) || realpathSync(path).startsWith(root)) continue;
    const version = spawnSync(path, ['--version'], { encoding: 'utf8', timeout: 20_000 }).stdout?.trim() ?? '';
    if (Number.parseInt(version.slice(1), 10) < LEAST_MAJOR) return { path, version };
  }
  return undefined;
}

const sentence = (version: string, name = 'spear-run') =>
  `${name}: needs Node 24 or newer, this is ${version}; run \`npm i node@26\` in your project, then \`npx ${name} …\`\n`;
const hello = fixture('c/hello.wasm');

it('says the same version everywhere', () => {
  expect(packageJson.engines.node).toBe(`>=${LEAST_MAJOR}`);
});

it.each(['v0.12.18', 'v18.20.4', 'v23.11.1'])('a Node that claims to be %s gets one line, and 125', async (version) => {
  const fakeVersion = join(scratch, `fake-${version}.cjs`);
  writeFileSync(
    fakeVersion,
    `Object.defineProperty(process, 'version', { value: '${version}' });
     Object.defineProperty(process.versions, 'node', { value: '${version.slice(1)}' });`,
  );
  const nodeArgs = ['--require', fakeVersion];
  for (const args of [[hello], ['--help'], []]) {
    expect(await spearRun(args, { nodeArgs })).toEqual({
      code: 125,
      signal: null,
      stdout: '',
      stderr: sentence(version),
    });
  }
});

it.each([`v${LEAST_MAJOR}.0.0`, 'v100.1.2'])('a Node that claims to be %s runs guests', async (version) => {
  const fakeVersion = join(scratch, `fake-${version}.cjs`);
  writeFileSync(fakeVersion, `Object.defineProperty(process.versions, 'node', { value: '${version.slice(1)}' });`);
  expect(await spearRun([hello], { nodeArgs: ['--require', fakeVersion] })).toMatchObject({
    code: 0,
    stdout: 'hello from C\n',
  });
});

it.each([
  ['spear', 2],
  ['spear-sms', 2],
])('so does %s, with its own code for what it cannot do', (name, status) => {
  const setVersion = `Object.defineProperty(process, 'version', { value: 'v18.20.4' });
    Object.defineProperty(process.versions, 'node', { value: '18.20.4' });`;
  const preload = join(scratch, `fake-for-${name}.cjs`);
  writeFileSync(preload, setVersion);
  const args = ['--require', preload, join(root, 'bin', `${name}.cjs`)];
  const ran = spawnSync(projectNode, args, { encoding: 'utf8', timeout: 20_000 });
  expect(ran).toMatchObject({ status, stdout: '', stderr: sentence('v18.20.4', name) });
});

it('the version it tells to install is one that is new enough', () => {
  expect(Number.parseInt(packageJson.devDependencies.node, 10)).toBe(26);
});

it('a real older Node gets one line, and 125', async (context) => {
  const old = oldNode();
  const missing = needs(
    old !== undefined,
    `Node below ${LEAST_MAJOR} on PATH, outside the project,`,
    'apt-get install nodejs',
  );
  if (!old) return context.skip(missing);
  const ran = await spearRun([hello], { node: old.path });
  expect(ran).toEqual({ code: 125, signal: null, stdout: '', stderr: sentence(old.version) });
});

it('npx in the checkout runs on the Node that the project brings, whatever the machine has', () => {
  const old = oldNode();
  const path = [old ? join(old.path, '..') : undefined, process.env.PATH]
    .filter((entry) => entry !== undefined)
    .join(delimiter);
  // Without scripts: npm would build dist/ again under the feet of other tests.
  const npx = spawnSync('npx', ['--no-install', 'spear-run', hello], {
    cwd: root,
    encoding: 'utf8',
    env: { PATH: path, HOME: scratch, npm_config_ignore_scripts: 'true', npm_config_update_notifier: 'false' },
    timeout: 60_000,
  });
  expect({ status: npx.status, stdout: npx.stdout }, npx.stderr).toEqual({ status: 0, stdout: 'hello from C\n' });
});

it.each(readdirSync(join(root, 'bin')))('bin/%s has nothing in it that an old Node cannot parse', (file) => {
  const path = JSON.stringify(join(root, 'bin', file));
  const script = `new (require('vm').Script)(require('fs').readFileSync(${path}, 'utf8').replace(/^#!.*/, ''))`;
  const { status, stderr } = spawnSync(oldNode()?.path ?? process.execPath, ['-e', script], {
    encoding: 'utf8',
    timeout: 20_000,
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
});
