import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join, posix } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { LocalRegistry } from './local-registry.ts';
import { relativeLinks } from './markdown-links.ts';
import { fixture, projectNode, root, scratch } from './spear-run.ts';

const INSTALL_MS = 180_000;
/** Of a component, or by tsc, which reads the declarations of all libraries. */
const COMPILE_MS = 60_000;
/** Of the files that an install brings, which have about 33: a heavy dependency shows. */
const MOST_MEGABYTES = 45;
const elsewhere = join(scratch, 'elsewhere');
let registry: LocalRegistry;

interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Not synchronous: the registry that npm asks runs in this process. */
async function run(command: string, args: readonly string[], cwd: string): Promise<Ran> {
  const child = spawn(command, args, {
    cwd,
    env: {
      PATH: `${join(root, 'node_modules/.bin')}:${process.env.PATH}`,
      HOME: scratch,
      npm_config_registry: registry.url,
      npm_config_cache: join(scratch, 'npm-cache'),
      npm_config_update_notifier: 'false',
      npm_config_audit: 'false',
      npm_config_fund: 'false',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: INSTALL_MS,
  });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code, stdout, stderr };
}

async function succeed(command: string, args: readonly string[], cwd: string): Promise<string> {
  const { code, stdout, stderr } = await run(command, args, cwd);
  expect(code, `${command} ${args.join(' ')}\n${stdout}\n${stderr}`).toBe(0);
  return stdout;
}

let packed: { filename: string; files: { path: string }[] };

beforeAll(async () => {
  registry = await LocalRegistry.start(root);
  mkdirSync(elsewhere);
  // Without scripts: they would build dist/ again under the feet of other tests.
  const said = await succeed('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', scratch], root);
  const listed = JSON.parse(said);
  packed = Array.isArray(listed) ? listed[0] : listed.spear;
  writeFileSync(join(elsewhere, 'package.json'), '{"name":"elsewhere","private":true,"type":"module"}\n');
  await succeed('npm', ['install', join(scratch, packed.filename)], elsewhere);
}, INSTALL_MS);

afterAll(() => registry.stop());

it('holds what it needs and nothing of the workshop [package.contents]', () => {
  const files = packed.files.map(({ path }) => path);
  expect(files).toEqual(
    expect.arrayContaining([
      'LICENSE',
      'README.md',
      'package.json',
      'bin/spear-run.cjs',
      'dist/THIRD-PARTY.txt',
      'dist/spear-run.cjs',
      'dist/guest-worker.cjs',
      'dist/turn-clock.cjs',
      'dist/index.js',
      'dist/types/index.d.ts',
      'docs/guests/c.md',
      'guest-examples/c/spear.h',
      'guest-examples/assemblyscript/spear.ts',
      'guest-examples/javascript/spear.js',
      'guest-examples/rust/src/lib.rs',
      'src/generated/audit.schema.json',
      'wit/spear.wit',
    ]),
  );
  const workshop =
    /^(?:src\/(?!generated\/audit\.schema\.json$)|test|scripts|bench|fixtures|node_modules|\.|guest-examples\/.*\/test\/)/;
  expect(files.filter((path) => workshop.test(path))).toEqual([]);
});

it('holds every file that its pages point to [package.contents]', () => {
  const files = packed.files.map(({ path }) => path);
  const pages = files.filter((path) => path.endsWith('.md'));
  const links = pages.flatMap((page) => {
    const targets = relativeLinks(readFileSync(join(root, page), 'utf8'));
    return targets.map((target) => ({
      page,
      target,
      path: posix.join(posix.dirname(page), target).replace(/\/$/, ''),
    }));
  });
  expect(links.length).toBeGreaterThan(0);
  const missing = links.filter(({ path }) => !files.some((file) => file === path || file.startsWith(`${path}/`)));
  expect(missing).toEqual([]);
});

it('depends on what it imports, and on nothing else [package.contents]', () => {
  // Not in comments, where examples are.
  const imports =
    /^(?!\s*(?:\*|\/[*/])).*?(?:\bfrom|\bimport\(|\brequire\()\s*["']((?:@[\w.-]+\/)?[a-z][\w.-]*)(?:\/[^"'\n]*)?["']/gm;
  const found = new Set<string>();
  for (const { path } of packed.files) {
    if (!/^dist\/.*\.(?:c?js|d\.ts)$/.test(path)) continue;
    for (const [, name = ''] of readFileSync(join(root, path), 'utf8').matchAll(imports)) found.add(name);
  }
  const packages = [...found].filter((name) => !isBuiltin(name)).sort();
  expect(packages).toEqual(Object.keys(packageJson.dependencies).sort());
});

describe('the tarball installed in an empty folder elsewhere', () => {
  it('runs guests [package.install]', async () => {
    expect(await succeed('npx', ['--no-install', 'spear-run', fixture('c/hello.wasm')], elsewhere)).toBe(
      'hello from C\n',
    );
  });

  it('weighs little, because the compiler of components is bundled without what is not used [package.weight]', () => {
    const installed = readdirSync(join(elsewhere, 'node_modules'), { recursive: true, withFileTypes: true });
    const bytes = installed
      .filter((entry) => entry.isFile())
      .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
    expect(bytes / 1e6).toBeLessThan(MOST_MEGABYTES);
    expect(installed.map(({ name }) => name)).not.toContain('binaryen');
  });

  it(
    'compiles a component that it has not seen before, and runs it [package.install]',
    async () => {
      const { stdout, stderr } = await run(
        'npx',
        ['--no-install', 'spear-run', fixture('rust/hello.component.wasm')],
        elsewhere,
      );
      expect(stdout, stderr).toBe('hello from Rust\n');
      expect(readdirSync(join(scratch, '.cache/spear'), { recursive: true }).length).toBeGreaterThan(0);
    },
    COMPILE_MS,
  );

  it(
    'makes a component of a module, and runs it [package.install]',
    async () => {
      const made = join(elsewhere, 'made.component.wasm');
      await succeed('npx', ['--no-install', 'spear', 'componentize', fixture('c/hello.wasm'), '-o', made], elsewhere);
      expect(await succeed('npx', ['--no-install', 'spear-run', made], elsewhere)).toBe('hello from C\n');
    },
    COMPILE_MS,
  );

  it.each([
    [
      'a script',
      ['--script', fixture('scripts/sum.json'), '--task-config', fixture('tasks/sum.json')],
      '2 + 40 = 42\n',
    ],
    ['the stub', [], '[stub] no model is configured; you said: What is 2 + 40? Use the tool.\n'],
  ])('finds its libraries when the model is %s [package.install]', async (_, flags, expected) => {
    const stdout = await succeed('npx', ['--no-install', 'spear-run', fixture('c/sum.wasm'), ...flags], elsewhere);
    expect(stdout.endsWith(expected)).toBe(true);
  });

  it('finds its libraries when the model is on the network [package.install]', async () => {
    const config = join(elsewhere, 'config.toml');
    // Nobody listens there: what matters is that the request was tried.
    const address = 'base_url = "http://127.0.0.1:9/v1"\nmodel = "m"\nmax_retries = 0\n';
    writeFileSync(config, `[backends.main]\nkind = "openai"\n${address}`);
    const args = ['--no-install', 'spear-run', fixture('c/chat.wasm'), '--config', config];
    const { code, stderr } = await run('npx', args, elsewhere);
    expect(code).toBe(1);
    expect(stderr).toContain('ECONNREFUSED');
  });

  it(
    'is a library with types, by which mistakes are found [package.library]',
    async () => {
      const example = `import { readFile } from 'node:fs/promises';
import { compileLimits, type JsonObject, type RunResult, runGuest, scriptedBackend, type ScriptTurn } from 'spear';

const turns: ScriptTurn[] = [{ reply: { content: 'not asked' } }];
const about: JsonObject = { turns: turns.length };

export async function run(file: string): Promise<RunResult> {
  return runGuest({
    wasm: await readFile(file),
    args: [file],
    limits: compileLimits({ timeout_ms: 20_000 }),
    backend: () => scriptedBackend({ turns }),
    onNotice: (text: string) => console.error(text, about),
  });
}

const { reason, exitCode } = await run(process.argv[2] ?? '');
console.log(reason, exitCode);
`;
      writeFileSync(join(elsewhere, 'example.ts'), example);
      const compilerOptions = {
        target: 'es2024',
        module: 'nodenext',
        strict: true,
        exactOptionalPropertyTypes: true,
        noEmit: true,
        skipLibCheck: false,
        lib: ['es2024', 'esnext.disposable'],
        types: ['node'],
        typeRoots: [join(root, 'node_modules/@types')],
      };
      // One run of the compiler, which takes long: of all it reads, only the second file is wrong.
      writeFileSync(join(elsewhere, 'wrong.ts'), "import { runGuest } from 'spear';\nawait runGuest({ wasm: 42 });\n");
      const files = ['example.ts', 'wrong.ts'];
      writeFileSync(join(elsewhere, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
      const checked = await run('tsc', ['-p', '.', '--pretty', 'false'], elsewhere);
      const errors = checked.stdout.split('\n').filter((line) => line.includes('error TS'));
      expect(errors).toEqual([expect.stringMatching(/^wrong\.ts\(2,/)]);
      const stdout = await succeed(projectNode, ['example.ts', fixture('c/hello.wasm')], elsewhere);
      expect(stdout).toBe('hello from C\nexit 0\n');
    },
    COMPILE_MS,
  );
});
