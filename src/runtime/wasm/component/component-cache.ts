import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import packageJson from '../../../../package.json' with { type: 'json' };
import { errorCode } from '../../../base/errors.ts';
import { isJsonObject } from '../../../base/json.ts';
import type { CompiledComponent } from './component-stages.ts';

/** Maximum total size; beyond it, the least recently used entries are evicted. */
const CACHE_BYTES = 512 * 1024 * 1024;

/** Older partial files were left behind by a process that died. */
const ABANDONED_MS = 3_600_000;

const ENTRY_SUFFIX = '.component';
/** Suffix of partial files, which are renamed when complete. */
const UNFINISHED_SUFFIX = '.unfinished';

const DIRECTORY_MODE = 0o700;
const ENTRY_MODE = 0o600;
const WRITABLE_BY_OTHERS = 0o022;
const OPEN_TO_OTHERS = 0o077;

/** Key of an entry: a hash of its parts, without ambiguity between parts. */
export function cacheKey(bytes: Uint8Array, ...parts: readonly string[]): string {
  const hash = createHash('sha256').update(createHash('sha256').update(bytes).digest());
  for (const part of parts) hash.update(`${Buffer.byteLength(part)}:${part}`);
  return hash.digest('hex');
}

/**
 * Cache of compiled components on disk, one file per entry, shared by processes without locks.
 *
 * An entry is code that runs in this process, so files and directories that another user could have written are not used.
 * Files are written to a temporary name and renamed, and carry a hash of their content. The key includes the component,
 * the version of jco, of this program and of the checks. Eviction is by total size, least recently used first. A failure
 * to store or read an entry is never an error of the run.
 */
export class ComponentCache {
  readonly #directory: string;
  readonly #maxBytes: number;

  private constructor(directory: string, maxBytes: number) {
    this.#directory = directory;
    this.#maxBytes = maxBytes;
  }

  /** Opens the cache, or describes why it cannot be used. */
  static open(directory: string, maxBytes = CACHE_BYTES): ComponentCache | string {
    try {
      makeDirectory(directory);
      const found = lstatSync(directory);
      if (!found.isDirectory()) return 'not a directory';
      if (!isOwn(found.uid)) return 'the directory belongs to another user';
      if (hasModes && found.mode & OPEN_TO_OTHERS)
        return `other users may access the directory (chmod 700 ${directory})`;
      return new ComponentCache(directory, maxBytes);
    } catch (error) {
      return errorCode(error) ?? String(error);
    }
  }

  /** Loads an entry. A damaged entry is removed. */
  load(key: string): CompiledComponent | undefined {
    const file = this.#file(key);
    let bytes: Buffer | undefined;
    try {
      bytes = readOwn(file);
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return undefined;
    }
    const entry = bytes && decodeEntry(bytes, key);
    if (!entry) {
      ignoreErrors(() => rmSync(file, { force: true, recursive: true })); // where it cannot go, it is not used either
      return undefined;
    }
    const now = new Date();
    ignoreErrors(() => utimesSync(file, now, now));
    return entry;
  }

  /** Stores an entry. Describes the failure; undefined: stored. */
  store(key: string, compiled: CompiledComponent): string | undefined {
    const unfinished = join(this.#directory, `${randomBytes(16).toString('hex')}${UNFINISHED_SUFFIX}`);
    try {
      const entry = encodeEntry(compiled, key);
      if (entry.byteLength > this.#maxBytes)
        return `the entry has ${entry.byteLength} bytes, the cache holds at most ${this.#maxBytes}`;
      writeFileSync(unfinished, entry, { flag: 'wx', mode: ENTRY_MODE });
      renameSync(unfinished, this.#file(key));
      evict(this.#directory, this.#maxBytes, Date.now());
      return undefined;
    } catch (error) {
      ignoreErrors(() => rmSync(unfinished, { force: true }));
      return errorCode(error) ?? String(error);
    }
  }

  #file(key: string): string {
    return join(this.#directory, key + ENTRY_SUFFIX);
  }
}

/** Evicts the least recently used entries until the rest fits. Other processes may evict at the same time. */
function evict(directory: string, maxBytes: number, now: number): void {
  const files = readdirSync(directory)
    .filter((name) => name.endsWith(ENTRY_SUFFIX) || name.endsWith(UNFINISHED_SUFFIX))
    .flatMap((name) => {
      const path = join(directory, name);
      const found = statSync(path, { throwIfNoEntry: false });
      return found ? [{ path, bytes: found.size, usedAt: found.mtimeMs, finished: name.endsWith(ENTRY_SUFFIX) }] : [];
    });
  for (const { path, usedAt, finished } of files) {
    if (!finished && now - usedAt > ABANDONED_MS) rmSync(path, { force: true });
  }
  const entries = files.filter(({ finished }) => finished).sort((one, other) => one.usedAt - other.usedAt);
  let total = entries.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { path, bytes } of entries) {
    if (total <= maxBytes) return;
    rmSync(path, { force: true });
    total -= bytes;
  }
}

/** Creates a directory and its parents one by one: the recursive option of Node never returns below `/proc`. */
function makeDirectory(directory: string): void {
  if (existsSync(directory)) return;
  makeDirectory(dirname(directory));
  try {
    mkdirSync(directory, { mode: DIRECTORY_MODE });
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error; // another process was faster
  }
}

/** Content of a file that no other user can have written; undefined: any other file. */
function readOwn(file: string): Buffer | undefined {
  const fd = openSync(file, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  try {
    const { uid, mode, size } = fstatSync(fd);
    const trusted =
      isOwn(uid) && !(hasModes && mode & WRITABLE_BY_OTHERS) && (mode & constants.S_IFMT) === constants.S_IFREG;
    return trusted && size <= CACHE_BYTES ? readFileSync(fd) : undefined;
  } finally {
    closeSync(fd);
  }
}

/** Not checked on Windows, which has no such users and modes; the directory is in the user's profile. */
const hasModes = process.getuid !== undefined;
const isOwn = (uid: number) => process.getuid === undefined || uid === process.getuid();

/** Ignores errors caused by concurrent changes of other processes. */
function ignoreErrors(action: () => void): void {
  try {
    action();
  } catch {}
}

// magic, newline, sha256 of the rest in hex, newline, header as JSON, newline, glue, core modules.
const MAGIC = 'spear component 1';
const NEWLINE = 0x0a;
const HASH_CHARACTERS = 64;
const HEADER_START = MAGIC.length + 1 + HASH_CHARACTERS + 1;

interface Header {
  readonly key: string;
  readonly glueBytes: number;
  readonly modules: readonly (readonly [name: string, bytes: number])[];
  readonly about: Omit<CompiledComponent, 'glue' | 'coreModules'>;
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

export function encodeEntry({ glue, coreModules, ...about }: CompiledComponent, key: string): Buffer {
  const text = Buffer.from(glue);
  const header: Header = {
    key,
    glueBytes: text.byteLength,
    modules: [...coreModules].map(([name, bytes]) => [name, bytes.byteLength]),
    about,
  };
  const content = Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n`), text, ...coreModules.values()]);
  return Buffer.concat([Buffer.from(`${MAGIC}\n${sha256(content)}\n`), content]);
}

/** Decodes an entry; undefined: another key, truncated, or changed in any byte. */
export function decodeEntry(bytes: Buffer, key: string): CompiledComponent | undefined {
  const content = bytes.subarray(HEADER_START);
  const start = bytes.subarray(0, HEADER_START).toString('latin1');
  if (start !== `${MAGIC}\n${sha256(content)}\n`) return undefined;
  const end = content.indexOf(NEWLINE);
  const header = parseHeader(content.subarray(0, end).toString());
  if (header?.key !== key) return undefined;

  let at = end + 1;
  const next = (length: number) => {
    at += length;
    return content.subarray(at - length, at);
  };
  const glue = next(header.glueBytes).toString();
  const coreModules = new Map(header.modules.map(([name, length]) => [name, next(length)]));
  return { ...header.about, glue, coreModules };
}

function parseHeader(text: string): Header | undefined {
  const header: unknown = JSON.parse(text);
  return isJsonObject(header) ? (header as unknown as Header) : undefined;
}

/** Version of @bytecodealliance/jco-transpile in dist/. The checks of its output are for this version. */
export const JCO_VERSION: string = packageJson.devDependencies['@bytecodealliance/jco-transpile'];

/** Increase whenever admission, the import check or the fast lane proof gives other results. */
export const GATE_VERSION = 3;

/** Version of this program: another version may treat the same component differently. */
export const OWN_VERSION: string = packageJson.version;
