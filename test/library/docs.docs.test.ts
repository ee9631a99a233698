import { execFile, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const page = readFileSync(join(root, 'docs/library.md'), 'utf8');
const blocks = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, block = '']) => block);

/** A program's folder: the package installed as it is built, beside a server and the fixtures. */
const home = mkdtempSync(join(tmpdir(), 'spear-docs-'));
afterAll(() => rmSync(home, { recursive: true, force: true }));
cpSync(join(root, 'fixtures'), join(home, 'fixtures'), { recursive: true });
writeFileSync(join(home, 'package.json'), '{"type":"module"}\n');
mkdirSync(join(home, 'node_modules'));
symlinkSync(root, join(home, 'node_modules/spear'));
symlinkSync(join(root, 'node_modules/.bin'), join(home, 'node_modules/.bin'));
for (const [index, block] of blocks.entries()) writeFileSync(join(home, `example-${index}.ts`), block);

it('its examples are checked by the types of the package [library.docs]', { timeout: 120_000 }, () => {
  const compilerOptions = {
    target: 'es2024',
    module: 'nodenext',
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    skipLibCheck: true,
    lib: ['es2024', 'esnext.disposable'],
    types: ['node'],
    typeRoots: [join(root, 'node_modules/@types')],
  };
  writeFileSync(join(home, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['example-*.ts'] }));
  const { stdout } = spawnSync(join(root, 'node_modules/.bin/tsc'), ['-p', home], { encoding: 'utf8' });
  expect(stdout).toBe('');
});

it.each(blocks.map((block, index) => [index, block.match(/\w+\(\{/g)?.join(' ') ?? '', block] as const))(
  'its example %i works as written: %s [library.docs]',
  { timeout: 60_000 },
  async (index, _calls, block) => {
    // Like any program: nothing put node_modules/.bin on its PATH, but the interpreter that servers name is there.
    const env = { PATH: `${join(process.execPath, '..')}:/usr/bin:/bin`, HOME: home, TMPDIR: tmpdir() };
    const node = [`example-${index}.ts`];
    const { stdout } = await promisify(execFile)(process.execPath, node, { cwd: home, env, timeout: 60_000 });
    expect(stdout, block).not.toBe('');
    const promised = [...block.matchAll(/^\/\/ (.*)$/gm)].map(([, line]) => line);
    for (const line of promised) expect(stdout).toContain(line);
  },
);
