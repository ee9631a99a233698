import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exceptionOf, exceptions } from './exceptions.ts';

const root = join(import.meta.dirname, '../..');
const run = promisify(execFile);

/** The suite as released, and the newest that knows versions to come. */
const suites = { released: '@modelcontextprotocol/conformance', next: 'conformance-next' } as const;
type Suite = keyof typeof suites;

const MODERN = '2026-07-28';
const SCENARIO_TIMEOUT_MS = 60_000;
const TEST_TIMEOUT_MS = 120_000;

/** Here, and not in the folder of a run: what a client imports of packages is found from there. */
const clients = join(root, 'node_modules/.cache/spear', `conformance-${process.pid}`);
let workDir = '';
beforeAll(async () => {
  workDir = await mkdtemp(join(tmpdir(), 'spear-conformance-'));
  // Each scenario starts a client: from the sources it would spend a second on stripping types.
  const bundle = await rolldown({
    cwd: root,
    input: ['client', 'auth-client'].map((name) => join(root, 'test/conformance', `${name}.ts`)),
    platform: 'node',
    external: [/^[^./]/],
  });
  await bundle.write({
    dir: clients,
    format: 'esm',
    entryFileNames: '[name].mjs',
    chunkFileNames: '[name]-[hash].mjs',
  });
  await bundle.close();
});
afterAll(() => Promise.all([workDir, clients].map((path) => rm(path, { recursive: true, force: true }))));

interface Scenario {
  readonly suite: Suite;
  readonly name: string;
  /** Null: the one that the suite chooses. */
  readonly version: string | null;
}

function conformance(suite: Suite, args: readonly string[], cwd = root): Promise<{ stdout: string; stderr: string }> {
  return run(process.execPath, [join(root, 'node_modules', suites[suite], 'dist/index.js'), ...args], { cwd });
}

/** Of those that are there for several versions, the new one is asked for as well. */
async function clientScenarios(suite: Suite): Promise<Scenario[]> {
  const { stdout } = await conformance(suite, ['list']);
  const listed = stdout.split(/^(?=\S.* scenarios)/m).find((section) => section.startsWith('Client scenarios')) ?? '';
  return [...listed.matchAll(/^ {2}- (\S+) \[(.*)\]$/gm)].flatMap(([, name = '', versions = '']) => {
    const both = versions.includes(',') && versions.split(',').includes(MODERN);
    return [{ suite, name, version: null }, ...(both ? [{ suite, name, version: MODERN }] : [])];
  });
}

const scenarios = (await Promise.all([clientScenarios('released'), clientScenarios('next')])).flat();

describe('a client of the conformance suite that goes through our pool', () => {
  const wanted = scenarios.filter((scenario) => exceptionOf(scenario) === null);

  it.concurrent.for(wanted)(
    'passes $name of the suite $suite (version: $version) [mcp.conformance]',
    {
      timeout: TEST_TIMEOUT_MS,
    },
    async ({ suite, name, version }) => {
      const client = name.startsWith('auth/') ? 'auth-client.mjs' : 'client.mjs';
      const command = `${process.execPath} ${join(clients, client)}`;
      const args = ['client', '--command', command, '--scenario', name, '--timeout', String(SCENARIO_TIMEOUT_MS)];
      const chosen = version === null ? [] : ['--spec-version', version];
      const { stderr } = await conformance(suite, [...args, ...chosen], workDir).catch((error) => {
        throw new Error(`${error.stdout}\n${error.stderr}`);
      });
      expect(stderr).toMatch(/OVERALL: PASSED/);
    },
  );

  it('leaves out only what is said to be left out', () => {
    expect(wanted.length).toBeGreaterThanOrEqual(14);
    for (const { scenarios: pattern } of exceptions) {
      expect(
        scenarios.some(({ name }) => pattern.test(name)),
        `${pattern} matches no scenario`,
      ).toBe(true);
    }
  });
});
