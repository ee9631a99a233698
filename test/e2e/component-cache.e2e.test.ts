import { chmodSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fixture, scratch, spearRun } from './spear-run.ts';

const GENEROUS_MS = 120_000;
const hello = fixture('rust/hello.component.wasm');

/** A user's cache of its own, empty. */
function newCache() {
  const env = { XDG_CACHE_HOME: mkdtempSync(join(scratch, 'cache-')) };
  const directory = join(env.XDG_CACHE_HOME, 'spear', 'components');
  return { env, directory };
}

const how = (stderr: string) => /^spear-run: component: (.+), \d+ ms$/m.exec(stderr)?.[1];

describe('spear-run and the cache of components', () => {
  it(
    'compiles a component once and says so with --verbose [component.cache]',
    async () => {
      const { env, directory } = newCache();
      const first = await spearRun([hello, '-v'], { env });
      const second = await spearRun([hello, '-v'], { env });
      expect([first.code, second.code]).toEqual([0, 0]);
      expect(second.stdout).toBe(first.stdout);
      expect(how(first.stderr)).toBe('fast lane; compiled now');
      expect(how(second.stderr)).toBe('fast lane; cached');
      expect(second.stderr).not.toContain('compiling');
      expect(readdirSync(directory)).toHaveLength(1);
    },
    GENEROUS_MS,
  );

  it(
    '--no-cache neither looks nor keeps',
    async () => {
      const { env } = newCache();
      const { code, stderr } = await spearRun([hello, '-v', '--no-cache'], { env });
      expect(code).toBe(0);
      expect(how(stderr)).toBe('fast lane; compiled now');
      expect(readdirSync(env.XDG_CACHE_HOME)).toEqual([]);
    },
    GENEROUS_MS,
  );

  it(
    'a damaged entry is made again, a cache of others is not used',
    async () => {
      const { env, directory } = newCache();
      await spearRun([hello], { env });
      const [entry = ''] = readdirSync(directory);
      writeFileSync(join(directory, entry), 'not what it was');
      expect(how((await spearRun([hello, '-v'], { env })).stderr)).toBe('fast lane; compiled now');
      expect(how((await spearRun([hello, '-v'], { env })).stderr)).toBe('fast lane; cached');
      chmodSync(directory, 0o777);
      const { code, stderr } = await spearRun([hello, '-v'], { env });
      expect(code).toBe(0);
      expect(stderr).toContain(
        `spear-run: the component cache ${directory} is not used: other users may access the directory`,
      );
      expect(how(stderr)).toBe('fast lane; compiled now');
    },
    GENEROUS_MS,
  );

  it(
    '--json keeps its stdout to itself',
    async () => {
      const { env } = newCache();
      const { stdout } = await spearRun([hello, '--json', '-v'], { env });
      expect(JSON.parse(stdout)).toMatchObject({ exit_code: 0, reason: 'exit' });
      expect(stdout).not.toContain('compil');
    },
    GENEROUS_MS,
  );

  it(
    '--dry-run compiles it and describes it',
    async () => {
      const { env, directory } = newCache();
      const { code, stdout } = await spearRun([hello, '--dry-run'], { env });
      expect(code).toBe(0);
      expect(stdout).toMatch(
        /^module .+hello\.component\.wasm: \d+ bytes, component: fast lane; compiled now, \d+ ms$/m,
      );
      expect(readdirSync(directory)).toHaveLength(1);
    },
    GENEROUS_MS,
  );

  it(
    'a component that asks for what is not there ends with 125 and the name',
    async () => {
      const { fromText } = await import('../support/component-text.ts');
      const file = join(scratch, 'future.wasm');
      writeFileSync(file, await fromText('(component (import "spear:host/cchat@2.1.0" (instance)))'));
      const { code, stderr } = await spearRun([file], newCache());
      expect(code).toBe(125);
      expect(stderr).toBe(
        `spear-run: ${file}: the component has imports that this host does not provide: spear:host/cchat@2.1.0 (this host has spear:host 1.1.0: the major version must be equal, the minor version not higher)\n`,
      );
    },
    GENEROUS_MS,
  );
});
