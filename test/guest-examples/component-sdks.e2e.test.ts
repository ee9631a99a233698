import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { componentWit } from '@bytecodealliance/jco-transpile/wasm-tools';
import { describe, expect, it } from 'vitest';
import { currentSources, recordedSources } from '../../scripts/guest-sources.ts';
import { witFunctions, witPackage } from '../../src/runtime/abi/wit.ts';
import { spearRun } from '../e2e/spear-run.ts';
import { withoutProgress } from './component-progress.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folders = ['c', 'assemblyscript', 'javascript'];

const components = folders.flatMap((folder) =>
  readdirSync(join(root, 'fixtures', folder))
    .filter((name) => name.endsWith('.component.wasm'))
    .map((name) => `${folder}/${name}`),
);
const core = components
  .map((name) => name.replace('.component.wasm', '.wasm'))
  // echo speaks with a client, not with a model
  .filter((name) => !name.startsWith('javascript/') && !name.endsWith('/echo.wasm'));

describe('the components in fixtures', () => {
  it.each(folders)('of %s say hello and go on a tour', (folder) => {
    expect(components).toContain(`${folder}/hello.component.wasm`);
    expect(components).toContain(`${folder}/tour.component.wasm`);
  });

  it.each(components)('%s imports this version of our interfaces, and WASI only besides', async (name) => {
    const wit = await componentWit(readFileSync(join(root, 'fixtures', name)));
    const imports = [...wit.matchAll(/^ {2}import (\S+);$/gm)].map(([, found = '']) => found);
    expect(imports.length).toBeGreaterThan(0);
    const ours = new Set(['types', ...witFunctions.map((row) => row.interface)]);
    const known = new Set([...ours].map((each) => `spear:${witPackage.name}/${each}@${witPackage.version}`));
    expect(imports.filter((found) => !known.has(found) && !/^wasi:\w+\/[\w-]+@0\.2\.\d+$/.test(found))).toEqual([]);
  });

  it('of JavaScript are built from the sources that are here', async () => {
    const [recorded, current] = await Promise.all([recordedSources('javascript'), currentSources('javascript')]);
    expect(current, 'build them again: npm run build:guests -- --only javascript').toEqual(recorded);
  });
});

// What an example says does not depend on the form it was built in.
describe.each(core)('%s', (module) => {
  it('says the same as its component', { timeout: 60_000 }, async () => {
    const stem = module.split('/')[1]?.replace('.wasm', '') ?? '';
    const script = join('fixtures', 'scripts', `${stem}.json`);
    const withMcp = ['--mcp-dir', 'fixtures/mcp.d', '--task-config', `fixtures/tasks/${stem}.json`];
    const more = stem === 'tour' || stem === 'resources' ? withMcp : [];
    const args = stem === 'hello' || stem === 'resources' ? more : ['--script', script, ...more];
    const run = (file: string) => spearRun([join('fixtures', file), ...args], { cwd: root });
    const asModule = await run(module);
    const asComponent = await run(module.replace('.wasm', '.component.wasm'));
    expect(asModule.code).toBe(0);
    expect(asModule.stdout).not.toBe('');
    expect({ ...asComponent, stderr: withoutProgress(asComponent.stderr) }).toEqual(asModule);
  });
});
