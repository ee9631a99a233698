import { execFile } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  ComponentCache,
  cacheKey,
  decodeEntry,
  encodeEntry,
} from '../../../../src/runtime/wasm/component/component-cache.ts';
import type { CompiledComponent } from '../../../../src/runtime/wasm/component/component-stages.ts';

let folder = '';
let directory = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'spear-cache-'));
  directory = join(folder, 'deep', 'components');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function open(maxBytes?: number): ComponentCache {
  const cache = ComponentCache.open(directory, maxBytes);
  if (typeof cache === 'string') throw new Error(cache);
  return cache;
}

const sample = (text = 'glue', bytes = 3): CompiledComponent => ({
  glue: `${text} ✓`,
  coreModules: new Map([
    ['component.core.wasm', new Uint8Array(bytes).fill(7)],
    ['component.core2.wasm', new Uint8Array()],
  ]),
  imports: ['spear:host/log@1.0.0'],
  entry: 'run',
  lane: { kind: 'glue', reason: 'a reason' },
  memories: [1, 17],
  tables: [],
});

const key = cacheKey(Buffer.from('component'), 'a', 'b');
const onlyFile = () => join(directory, readdirSync(directory)[0] ?? '');
const content = (kept: CompiledComponent | undefined) =>
  kept && { ...kept, coreModules: [...kept.coreModules].map(([name, bytes]) => [name, [...bytes]]) };

describe('the key', () => {
  it('is the same for the same parts and for no others [component.cache]', () => {
    const bytes = Buffer.from('component');
    expect(cacheKey(bytes, 'a', 'b')).toBe(key);
    const others = [
      cacheKey(Buffer.from('Component'), 'a', 'b'),
      cacheKey(bytes, 'a', 'c'),
      cacheKey(bytes, 'ab', ''),
      cacheKey(bytes, '', 'ab'),
      cacheKey(bytes, 'a'),
      cacheKey(bytes, 'a', 'b', ''),
    ];
    expect(new Set([key, ...others]).size).toBe(7);
    expect(key).toMatch(/^[0-9a-f]{64}$/);
  });
});

describe('an entry', () => {
  it('comes back as it was, in another process of this user too [component.cache]', () => {
    const cache = open();
    expect(cache.load(key)).toBeUndefined();
    expect(cache.store(key, sample())).toBeUndefined();
    expect(content(open().load(key))).toEqual(content(sample()));
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    expect(statSync(onlyFile()).mode & 0o777).toBe(0o600);
  });

  it('is thrown away when anything about it changed', () => {
    const whole = encodeEntry(sample(), key);
    expect(content(decodeEntry(whole, key))).toEqual(content(sample()));
    expect(decodeEntry(whole, cacheKey(Buffer.from('another')))).toBeUndefined();
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
        const changed = Buffer.from(whole);
        changed[at] = (changed[at] ?? 0) ^ change;
        expect(decodeEntry(changed, key)).toBeUndefined();
      }),
    );
    for (const length of [0, 1, 20, 90, whole.length - 1]) {
      expect(decodeEntry(whole.subarray(0, length), key)).toBeUndefined();
    }
    expect(decodeEntry(Buffer.concat([whole, Buffer.from('x')]), key)).toBeUndefined();
  });

  it.each([
    ['cut off', (file: string) => writeFileSync(file, readFileSync(file).subarray(0, 100))],
    ['empty', (file: string) => writeFileSync(file, '')],
    ['writable by others', (file: string) => chmodSync(file, 0o666)],
    ['a link', (file: string) => replaceByLink(file)],
    ['a directory', (file: string) => replaceByDirectory(file)],
  ])('that is %s is removed, and made again', (_what, damage) => {
    const cache = open();
    cache.store(key, sample());
    const file = onlyFile();
    damage(file);
    expect(cache.load(key)).toBeUndefined();
    expect(existsSync(file)).toBe(false);
    expect(cache.store(key, sample())).toBeUndefined();
    expect(cache.load(key)).toBeDefined();
  });

  it('that is damaged where nothing can be removed is not used', async () => {
    open().store(key, sample());
    writeFileSync(onlyFile(), 'damaged');
    const somebody = process.getuid?.() === 0 ? 12_345 : undefined;
    if (somebody) for (const path of [folder, directory, onlyFile()]) chownSync(path, somebody, somebody);
    chmodSync(join(folder, 'deep'), 0o755);
    chmodSync(directory, 0o500);
    const script = fileURLToPath(new URL('cache-read-only.ts', import.meta.url));
    const run = promisify(execFile);
    const args = [script, directory, key, String(somebody ?? '')];
    await expect(run(process.execPath, args, { timeout: 50_000 })).resolves.toMatchObject({ stdout: 'undefined' });
    chmodSync(directory, 0o700);
    expect(readdirSync(directory)).toHaveLength(1);
  }, 60_000);

  function replaceByLink(file: string): void {
    const elsewhere = join(folder, 'elsewhere');
    writeFileSync(elsewhere, readFileSync(file));
    rmSync(file);
    symlinkSync(elsewhere, file);
  }

  function replaceByDirectory(file: string): void {
    rmSync(file);
    mkdirSync(file);
  }
});

describe('a directory that is not this user’s alone', () => {
  it.each([0o755, 0o770, 0o701, 0o777])('mode %o is not used', (mode) => {
    mkdirSync(directory, { recursive: true });
    chmodSync(directory, mode);
    expect(ComponentCache.open(directory)).toBe(`other users may access the directory (chmod 700 ${directory})`);
  });

  it('a link, a file, or what cannot be made is not used', () => {
    mkdirSync(join(folder, 'real'), { mode: 0o700 });
    symlinkSync(join(folder, 'real'), join(folder, 'link'));
    expect(ComponentCache.open(join(folder, 'link'))).toBe('not a directory');
    writeFileSync(join(folder, 'file'), '');
    expect(ComponentCache.open(join(folder, 'file'))).toBe('not a directory');
    expect(ComponentCache.open(join(folder, 'file', 'inside'))).toBe('ENOTDIR');
  });

  it.runIf(process.platform === 'linux')('nor is one where none can be, and that ends', () => {
    expect(ComponentCache.open('/proc/spear/components')).toBe('ENOENT');
  });

  it.runIf(process.getuid?.() === 0)('one of another user is not used', () => {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    chownSync(directory, 12_345, 12_345);
    expect(ComponentCache.open(directory)).toBe('the directory belongs to another user');
    chownSync(directory, 0, 0);
    const cache = open();
    cache.store(key, sample());
    chownSync(onlyFile(), 12_345, 12_345);
    expect(cache.load(key)).toBeUndefined();
  });
});

describe('the size', () => {
  const keys = ['one', 'two', 'three', 'four'].map((name) => cacheKey(Buffer.from(name)));
  const kept = (cache: ComponentCache) => keys.map((name) => cache.load(name) !== undefined);

  it('is bounded: what was not used for longest goes first', () => {
    const cache = open(5000);
    const [one = '', two = '', three = '', four = ''] = keys;
    for (const name of [one, two, three]) {
      cache.store(name, sample('glue', 1000));
      aged(name, 1000);
    }
    aged(one, 3000);
    aged(two, 2000);
    cache.load(one); // used just now
    cache.store(four, sample('glue', 1000));
    expect(kept(cache)).toEqual([true, false, true, true]);
  });

  it('is not exceeded by one entry', () => {
    const cache = open(1000);
    expect(cache.store(keys[0] ?? '', sample('glue', 2000))).toMatch(
      /^the entry has \d+ bytes, the cache holds at most \d+$/,
    );
    expect(readdirSync(directory)).toEqual([]);
  });

  it('holds nothing that a dead process left behind, and leaves what is not ours', () => {
    const cache = open();
    for (const [name, seconds] of [
      ['old.unfinished', 7200],
      ['new.unfinished', 1],
      ['notes.txt', 9999],
    ] as const) {
      writeFileSync(join(directory, name), '');
      const then = Date.now() / 1000 - seconds;
      utimesSync(join(directory, name), then, then);
    }
    cache.store(key, sample());
    expect(
      readdirSync(directory)
        .filter((name) => !name.startsWith(key))
        .sort(),
    ).toEqual(['new.unfinished', 'notes.txt']);
  });

  function aged(name: string, seconds: number): void {
    const then = Date.now() / 1000 - seconds;
    utimesSync(join(directory, `${name}.component`), then, then);
  }
});

describe('many processes at once', () => {
  it('read whole entries or none while others write, change and remove them', async () => {
    open();
    const script = fileURLToPath(new URL('cache-churn.ts', import.meta.url));
    const run = promisify(execFile);
    const answers = await Promise.all(
      Array.from({ length: 4 }, (_, seed) =>
        run(process.execPath, [script, directory, String(seed)], { timeout: 110_000 }),
      ),
    );
    for (const { stdout } of answers) expect(JSON.parse(stdout)).toMatchObject({ wrong: 0, failed: [] });
    expect(readdirSync(directory).filter((name) => name.endsWith('.unfinished'))).toEqual([]);
  }, 120_000);

  it('a directory that goes away is no harm', () => {
    const cache = open();
    rmSync(directory, { recursive: true });
    expect(cache.load(key)).toBeUndefined();
    expect(cache.store(key, sample())).toBe('ENOENT');
  });
});
