import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { layoutProblems, MAX_LINES } from '../scripts/layout-rules.ts';

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

it('lets a file import from below, from its own layer, and package.json', () => {
  const problems = problemsOf({
    'cli/main.ts':
      "import { one } from '../abi/one.ts';\nimport { two } from './two.ts';\nexport const three = one + two;\n",
    'cli/two.ts': "import json from '../../package.json' with { type: 'json' };\nexport const two = json.two;\n",
    'abi/one.ts': leaf,
    'index.ts': "export { three } from './cli/main.ts';\n",
  });
  expect(problems).toEqual([]);
});

describe('an import that goes up', () => {
  it.each([
    ['a value', "import { one } from '../cli/one.ts';\nexport const two = one;\n"],
    ['a type', "import type { one } from '../cli/one.ts';\nexport type Two = typeof one;\n"],
    ['a type in place', "export type Two = typeof import('../cli/one.ts').one;\n"],
    ['an export', "export { one } from '../cli/one.ts';\n"],
    ['everything', "export * from '../cli/one.ts';\n"],
    ['later', "export const two = import('../cli/one.ts');\n"],
  ])('is found when it imports %s', (_, text) => {
    expect(problemsOf({ 'fd/two.ts': text, 'cli/one.ts': leaf })).toEqual([
      expect.stringMatching(
        /^src\/fd\/two\.ts:1: imports src\/cli\/one\.ts: fd may not import cli, imports go down: cli > doctor/,
      ),
    ]);
  });

  it('is not found in a comment or a string', () => {
    const text = "// import { one } from '../cli/one.ts';\nexport const text = \"import '../cli/one.ts'\";\n";
    expect(problemsOf({ 'fd/two.ts': text, 'cli/one.ts': leaf })).toEqual([]);
  });
});

it('finds a file outside the layers, and imports of the public surface and of what is not src', () => {
  const problems = problemsOf({
    'index.ts': leaf,
    'loose.ts': leaf,
    'helpers/one.ts': leaf,
    'cli/main.ts': "export { one } from '../index.ts';\nexport { two } from '../../test/two.ts';\n",
  });
  expect(problems).toEqual([
    expect.stringContaining('src/cli/main.ts:1: imports src/index.ts'),
    expect.stringContaining('src/cli/main.ts:2: imports test/two.ts, which is outside src/'),
    expect.stringContaining('src/helpers/one.ts: is not in a layer'),
    expect.stringContaining('src/loose.ts: is not in a layer'),
  ]);
});

it('finds a cycle between files of one layer, also one made of types', () => {
  const problems = problemsOf({
    'chat/a.ts': "import { b } from './b.ts';\nexport const a = b;\n",
    'chat/b.ts': "import type { C } from './c.ts';\nexport const b: C = 1;\n",
    'chat/c.ts': "import type { a } from './a.ts';\nexport type C = typeof a;\n",
    'chat/d.ts': "export { a } from './a.ts';\n",
  });
  expect(problems).toEqual(['import cycle: src/chat/a.ts -> src/chat/b.ts -> src/chat/c.ts -> src/chat/a.ts']);
});

describe("what the guest's thread can reach", () => {
  const worker = { 'guest/worker.ts': "import { one } from '../hostcalls/one.ts';\nexport const two = one;\n" };

  it('is guest, hostcalls, fd, protocol, abi and base', () => {
    const one = "import { port } from '../protocol/port.ts';\nexport const one = port;\n";
    expect(problemsOf({ ...worker, 'hostcalls/one.ts': one, 'protocol/port.ts': leaf.replace('one', 'port') })).toEqual(
      [],
    );
  });

  it.each(['chat', 'mcp', 'pool', 'policy', 'config', 'secrets'])(
    'is not %s, directly or by way of another file, not even for a type',
    (layer) => {
      const one = `import type { one as held } from '../${layer}/one.ts';\nexport const one: typeof held = 1;\n`;
      const problems = problemsOf({ ...worker, 'hostcalls/one.ts': one, [`${layer}/one.ts`]: leaf });
      expect(problems).toEqual([
        `src/hostcalls/one.ts:1: imports src/${layer}/one.ts: the guest's thread reaches it, and may reach guest, hostcalls, fd, protocol, abi, base`,
      ]);
    },
  );
});

describe('what runs in a browser', () => {
  it('reaches its own files, protocol and base, and the packages of the page', () => {
    const main = "import { h } from 'preact';\nimport { one } from '../../base/one.ts';\nexport const two = h(one);\n";
    expect(problemsOf({ 'sms/console/main.tsx': main, 'base/one.ts': leaf })).toEqual([]);
  });

  it('reaches nothing of the host, but for types, and nobody imports it', () => {
    const one = "import { createHash } from 'node:crypto';\nexport const one = createHash;\n";
    const problems = problemsOf({
      'sms/console/a.tsx': "import { one } from '../../protocol/one.ts';\nexport const a = one;\n",
      'sms/console/b.ts': "import type { one } from '../../protocol/one.ts';\nexport type B = typeof one;\n",
      'sms/console/c.ts': "import { two } from '../../policy/two.ts';\nexport const c = two;\n",
      'sms/sms.ts': "import { a } from './console/a.tsx';\nexport const sms = a;\n",
      'protocol/one.ts': one,
      'policy/two.ts': leaf.replace('one', 'two'),
    });
    expect(problems).toEqual([
      expect.stringContaining('src/protocol/one.ts:1: imports node:crypto, which a browser does not have'),
      expect.stringContaining('src/sms/console/c.ts:1: imports src/policy/two.ts: what runs in a browser may reach'),
      expect.stringContaining('src/registry/sms.ts:1: imports src/sms/console/a.tsx, which runs in a browser'),
    ]);
  });
});

describe('the environment', () => {
  it.each([
    'export const home = process.env.HOME;',
    "export const home = process['env'];",
    'export const home = globalThis.process.env;',
    'export const { env } = process;',
    "import { env } from 'node:process'; export const home = env;",
  ])('is read in src/config alone: %s', (text) => {
    expect(problemsOf({ 'pool/home.ts': text })).toEqual([
      'src/pool/home.ts:1: reads process.env; only src/config/ does, pass the value in',
    ]);
    expect(problemsOf({ 'config/home.ts': text })).toEqual([]);
  });

  it('is not an `env` of something else', () => {
    const text =
      'export const run = (options: { env: string }, process: { argv: string }) => options.env + process.argv;\n';
    expect(problemsOf({ 'pool/home.ts': text })).toEqual([]);
  });
});

it('finds a file that has grown too long', () => {
  const lines = (count: number) => leaf.repeat(count);
  expect(problemsOf({ 'abi/long.ts': lines(MAX_LINES) })).toEqual([]);
  expect(problemsOf({ 'abi/long.ts': lines(MAX_LINES + 1) })).toEqual([
    'src/abi/long.ts: 501 lines, at most 500 are allowed: split it by idea',
  ]);
});
