import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { layoutProblems, MAX_FILES, MAX_LINES } from '../scripts/layout-rules.ts';

const roots: string[] = [];

afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

/** The problems of a source tree that holds just these files. */
function problemsOf(files: Readonly<Record<string, string>>): string[] {
  const root = mkdtempSync(join(tmpdir(), 'spear-layout-'));
  roots.push(root);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, 'src', path)), { recursive: true });
    writeFileSync(join(root, 'src', path), text);
  }
  return layoutProblems(root);
}

const leaf = 'export const one = 1;\n';

it('finds nothing wrong with this project', () => {
  expect(layoutProblems(fileURLToPath(new URL('..', import.meta.url)))).toEqual([]);
});

it('lets a file import from below, from its own room, and package.json', () => {
  const problems = problemsOf({
    'cli/main.ts':
      "import { one } from '../runtime/abi/one.ts';\nimport { two } from './two.ts';\nexport const three = one + two;\n",
    'cli/two.ts': "import json from '../../package.json' with { type: 'json' };\nexport const two = json.two;\n",
    'runtime/abi/one.ts': leaf,
    'index.ts': "export { three } from './cli/main.ts';\n",
  });
  expect(problems).toEqual([]);
});

describe('an import that goes up', () => {
  it.each([
    ['a value', "import { one } from '../../cli/one.ts';\nexport const two = one;\n"],
    ['a type', "import type { one } from '../../cli/one.ts';\nexport type Two = typeof one;\n"],
    ['a type in place', "export type Two = typeof import('../../cli/one.ts').one;\n"],
    ['an export', "export { one } from '../../cli/one.ts';\n"],
    ['everything', "export * from '../../cli/one.ts';\n"],
    ['later', "export const two = import('../../cli/one.ts');\n"],
  ])('is found when it imports %s', (_, text) => {
    expect(problemsOf({ 'runtime/guest/two.ts': text, 'cli/one.ts': leaf })).toEqual([
      expect.stringMatching(
        /^src\/runtime\/guest\/two\.ts:1: imports src\/cli\/one\.ts: runtime\/guest may not import cli, imports go down: cli > console/,
      ),
    ]);
  });

  it('is not found in a comment or a string', () => {
    const text = "// import { one } from '../cli/one.ts';\nexport const text = \"import '../../cli/one.ts'\";\n";
    expect(problemsOf({ 'runtime/guest/two.ts': text, 'cli/one.ts': leaf })).toEqual([]);
  });
});

it('finds a file outside the rooms, and imports of the public surface and of what is not src', () => {
  const problems = problemsOf({
    'index.ts': leaf,
    'loose.ts': leaf,
    'helpers/one.ts': leaf,
    'cli/main.ts': "export { one } from '../index.ts';\nexport { two } from '../../test/two.ts';\n",
  });
  expect(problems).toEqual([
    expect.stringContaining('src/cli/main.ts:1: imports src/index.ts'),
    expect.stringContaining('src/cli/main.ts:2: imports test/two.ts, which is outside src/'),
    expect.stringContaining('src/helpers/one.ts: is not in a room'),
    expect.stringContaining('src/loose.ts: is not in a room'),
  ]);
});

it('finds a cycle between files of one room, also one made of types', () => {
  const problems = problemsOf({
    'agent/chat/a.ts': "import { b } from './b.ts';\nexport const a = b;\n",
    'agent/chat/b.ts': "import type { C } from './c.ts';\nexport const b: C = 1;\n",
    'agent/chat/c.ts': "import type { a } from './a.ts';\nexport type C = typeof a;\n",
    'agent/chat/d.ts': "export { a } from './a.ts';\n",
  });
  expect(problems).toEqual([
    'import cycle: src/agent/chat/a.ts -> src/agent/chat/b.ts -> src/agent/chat/c.ts -> src/agent/chat/a.ts',
  ]);
});

describe("what the guest's thread can reach", () => {
  const worker = { 'runtime/guest/worker.ts': "import { one } from './hostcalls/one.ts';\nexport const two = one;\n" };

  it('is its own room, the guest half of durable, port, abi and base', () => {
    const one = "import { port } from '../../port/port.ts';\nexport const one = port;\n";
    expect(
      problemsOf({
        ...worker,
        'runtime/guest/hostcalls/one.ts': one,
        'runtime/port/port.ts': leaf.replace('one', 'port'),
      }),
    ).toEqual([]);
  });

  it.each(['agent/chat', 'agent/mcp', 'agent/policy', 'runtime/durable', 'config', 'server/secrets'])(
    'is not %s, directly or by way of another file, not even for a type',
    (room) => {
      const one = `import type { one as held } from '../../../${room}/one.ts';\nexport const one: typeof held = 1;\n`;
      const problems = problemsOf({ ...worker, 'runtime/guest/hostcalls/one.ts': one, [`${room}/one.ts`]: leaf });
      expect(problems).toEqual([
        `src/runtime/guest/hostcalls/one.ts:1: imports src/${room}/one.ts: the guest's thread reaches it, and may reach runtime/guest, runtime/durable/guest, runtime/port, runtime/abi, base`,
      ]);
    },
  );
});

describe('what runs in a browser', () => {
  it('reaches its own files, records and base, and the packages of the page', () => {
    const main = "import { h } from 'preact';\nimport { one } from '../base/one.ts';\nexport const two = h(one);\n";
    expect(problemsOf({ 'console/main.tsx': main, 'base/one.ts': leaf })).toEqual([]);
  });

  it('reaches nothing of the host, but for types, and nobody imports it', () => {
    const one = "import { createHash } from 'node:crypto';\nexport const one = createHash;\n";
    const problems = problemsOf({
      'console/a.tsx': "import { one } from '../server/records/one.ts';\nexport const a = one;\n",
      'console/b.ts': "import type { one } from '../server/records/one.ts';\nexport type B = typeof one;\n",
      'console/c.ts': "import { two } from '../agent/policy/two.ts';\nexport const c = two;\n",
      'registry/sms.ts': "import { a } from '../console/a.tsx';\nexport const sms = a;\n",
      'server/records/one.ts': one,
      'agent/policy/two.ts': leaf.replace('one', 'two'),
    });
    expect(problems).toEqual([
      expect.stringContaining('src/server/records/one.ts:1: imports node:crypto, which a browser does not have'),
      expect.stringContaining('src/console/c.ts:1: imports src/agent/policy/two.ts: what runs in a browser may reach'),
      expect.stringContaining('src/registry/sms.ts:1: imports src/console/a.tsx, which runs in a browser'),
    ]);
  });
});

it('keeps the programs apart', () => {
  const problems = problemsOf({
    'node/one.ts': "import { two } from '../registry/two.ts';\nexport const one = two;\n",
    'registry/two.ts': leaf.replace('one', 'two'),
  });
  expect(problems).toEqual([expect.stringContaining('node and registry are separate programs')]);
});

describe('the environment', () => {
  it.each([
    'export const home = process.env.HOME;',
    "export const home = process['env'];",
    'export const home = globalThis.process.env;',
    'export const { env } = process;',
    "import { env } from 'node:process'; export const home = env;",
  ])('is read in src/config alone: %s', (text) => {
    expect(problemsOf({ 'agent/mcp/home.ts': text })).toEqual([
      'src/agent/mcp/home.ts:1: reads process.env; only src/config/ does, pass the value in',
    ]);
    expect(problemsOf({ 'config/home.ts': text })).toEqual([]);
  });

  it('is not an `env` of something else', () => {
    const text =
      'export const run = (options: { env: string }, process: { argv: string }) => options.env + process.argv;\n';
    expect(problemsOf({ 'agent/mcp/home.ts': text })).toEqual([]);
  });
});

it('finds a file that has grown too long', () => {
  const lines = (count: number) => leaf.repeat(count);
  expect(problemsOf({ 'base/long.ts': lines(MAX_LINES) })).toEqual([]);
  expect(problemsOf({ 'base/long.ts': lines(MAX_LINES + 1) })).toEqual([
    'src/base/long.ts: 801 lines, at most 800 are allowed: split it by idea',
  ]);
});

it('finds a folder with too many files', () => {
  const files = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`base/f${index}.ts`, leaf]));
  expect(problemsOf(files(MAX_FILES))).toEqual([]);
  expect(problemsOf(files(MAX_FILES + 1))).toEqual([
    'src/base: 26 files, at most 25 are allowed: merge files that change together, or split',
  ]);
});
