import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LocalRegistry } from './local-registry.ts';
import { fixture, projectNode, root, scratch } from './spear-run.ts';

const INSTALL_MS = 180_000;
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
      'dist/spear-run.cjs',
      'dist/guest-worker.cjs',
      'dist/index.js',
      'dist/types/index.d.ts',
      'guest-examples/c/spear.h',
      'guest-examples/assemblyscript/spear.ts',
    ]),
  );
  const workshop = /^(?:src|test|scripts|bench|fixtures|node_modules|\.)/;
  expect(files.filter((path) => workshop.test(path))).toEqual([]);
});

describe('the tarball installed in an empty folder elsewhere', () => {
  it('runs guests [package.install]', async () => {
    expect(await succeed('npx', ['--no-install', 'spear-run', fixture('c/hello.wasm')], elsewhere)).toBe(
      'hello from C\n',
    );
  });

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

  it('is a library with types [package.library]', async () => {
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
    writeFileSync(join(elsewhere, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['example.ts'] }));
    await succeed('tsc', ['-p', '.'], elsewhere);
    const stdout = await succeed(projectNode, ['example.ts', fixture('c/hello.wasm')], elsewhere);
    expect(stdout).toBe('hello from C\nexit 0\n');
  });

  it('types that are wrong are found [package.library]', async () => {
    writeFileSync(join(elsewhere, 'wrong.ts'), "import { runGuest } from 'spear';\nawait runGuest({ wasm: 42 });\n");
    const config = JSON.parse(readFileSync(join(elsewhere, 'tsconfig.json'), 'utf8'));
    writeFileSync(join(elsewhere, 'tsconfig.wrong.json'), JSON.stringify({ ...config, files: ['wrong.ts'] }));
    const { code, stdout } = await run('tsc', ['-p', 'tsconfig.wrong.json'], elsewhere);
    expect(code).not.toBe(0);
    expect(stdout).toContain('wrong.ts(2,');
  });
});
