import { type ChildProcess, execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exceptionOf, exceptions } from './exceptions.ts';
import type { SuiteRun } from './suite-process.ts';

const root = join(import.meta.dirname, '../..');
const run = promisify(execFile);

/** The suite as released, and the newest that knows versions to come. */
const suites = { released: '@modelcontextprotocol/conformance', next: 'conformance-next' } as const;
type Suite = keyof typeof suites;

const MODERN = '2026-07-28';
const SCENARIO_TIMEOUT_MS = 60_000;
const TEST_TIMEOUT_MS = 120_000;

let workDir = '';
const processes = new Map<Suite, ChildProcess>();
beforeAll(async () => {
  workDir = await mkdtemp(join(tmpdir(), 'spear-conformance-'));
  for (const suite of Object.keys(suites) as Suite[]) {
    processes.set(suite, fork(join(import.meta.dirname, 'suite-process.ts'), [fileOf(suite)], { cwd: workDir }));
  }
  // Each scenario starts a client: from many files, with types to strip, that would take several times as long.
  const bundle = await rolldown({
    cwd: root,
    input: ['client', 'auth-client'].map((name) => join(root, 'test/conformance', `${name}.ts`)),
    platform: 'node',
    // The form that Node would load hides its own files from a bundler.
    resolve: { alias: { 'jsonc-parser': join(root, 'node_modules/jsonc-parser/lib/esm/main.js') } },
    // The library loads at once what the commands load when they need it.
    checks: { ineffectiveDynamicImport: false },
  });
  await bundle.write({
    dir: workDir,
    format: 'esm',
    entryFileNames: '[name].mjs',
    chunkFileNames: '[name]-[hash].mjs',
  });
  await bundle.close();
});
afterAll(async () => {
  await Promise.all([...processes.values()].map((child) => child.kill() && once(child, 'exit')));
  await rm(workDir, { recursive: true, force: true });
});

interface Scenario {
  readonly suite: Suite;
  readonly name: string;
  /** Null: the one that the suite chooses. */
  readonly version: string | null;
}

const fileOf = (suite: Suite) => join(root, 'node_modules', suites[suite], 'dist/index.js');

async function conformance(suite: Suite, args: readonly string[]): Promise<SuiteRun> {
  const child = processes.get(suite);
  if (!child?.connected) throw new Error(`the process of the suite ${suite} is gone`);
  const ended = once(child, 'message', { signal: AbortSignal.timeout(TEST_TIMEOUT_MS) });
  child.send(args);
  return (await ended)[0];
}

/** Of those that are there for several versions, the new one is asked for as well. */
async function clientScenarios(suite: Suite): Promise<Scenario[]> {
  const { stdout } = await run(process.execPath, [fileOf(suite), 'list']);
  const listed = stdout.split(/^(?=\S.* scenarios)/m).find((section) => section.startsWith('Client scenarios')) ?? '';
  return [...listed.matchAll(/^ {2}- (\S+) \[(.*)\]$/gm)].flatMap(([, name = '', versions = '']) => {
    const both = versions.includes(',') && versions.split(',').includes(MODERN);
    return [{ suite, name, version: null }, ...(both ? [{ suite, name, version: MODERN }] : [])];
  });
}

const scenarios = (await Promise.all([clientScenarios('released'), clientScenarios('next')])).flat();

describe('a client of the conformance suite that goes through our pool', () => {
  const wanted = scenarios.filter((scenario) => exceptionOf(scenario) === null);

  it.for(wanted)(
    'passes $name of the suite $suite (version: $version) [mcp.conformance]',
    { timeout: TEST_TIMEOUT_MS },
    async ({ suite, name, version }) => {
      const client = name.startsWith('auth/') ? 'auth-client.mjs' : 'client.mjs';
      const command = `${process.execPath} ${join(workDir, client)}`;
      const args = ['client', '--command', command, '--scenario', name, '--timeout', String(SCENARIO_TIMEOUT_MS)];
      const chosen = version === null ? [] : ['--spec-version', version];
      const { code, output } = await conformance(suite, [...args, ...chosen]);
      expect(output).toMatch(/OVERALL: PASSED/);
      expect(code, output).toBe(0);
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
