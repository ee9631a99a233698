import { hash, randomUUID } from 'node:crypto';
import { createReadStream, existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { type FileHandle, open, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode, errorText } from '../../base/errors.ts';
import { isNamespace } from '../records/permissions.ts';
import { TaskError } from './task-book.ts';

const PRIVATE_DIRECTORY = 0o700;
const PRIVATE_FILE = 0o600;
const BLOB_FILE = /^([0-9a-f]{64})\.wasm$/;
const PARTIAL_FILE = /\.partial$/;
/** An empty marker file: the namespace in its name has uploaded the module. */
const UPLOAD_FILE = /^[0-9a-f]{64}\.[a-z0-9-]+\.upload$/;
/** Chunk size of module streams. */
const STREAM_BYTES = 256 * 1024;
const SHA256 = /^[0-9a-f]{64}$/;

export interface StoredBlob {
  readonly sha256: string;
  readonly bytes: number;
  /** Time of the last upload. */
  readonly putAtMs: number;
}

/** Content-addressed store of modules in a directory. Reads verify the digest; writes are atomic and durable. */
export class Blobs {
  readonly #directory: string;
  readonly #maxBytes: number;

  /** `maxBytes` limits the total size. */
  constructor(directory: string, maxBytes = Number.POSITIVE_INFINITY) {
    this.#directory = directory;
    this.#maxBytes = maxBytes;
  }

  has(sha256: string): boolean {
    return existsSync(this.#path(sha256));
  }

  /**
   * Stores a module durably and returns its digest. `uploadedBy` is the namespace of the uploading caller, which may use
   * the module by its digest from then on. @throws TaskError
   */
  async put(bytes: Uint8Array, uploadedBy: string | null = null): Promise<string> {
    const sha256 = hash('sha256', bytes);
    try {
      if (this.has(sha256)) await this.#touch(sha256);
      else {
        this.#ensureRoom(bytes.byteLength);
        await this.#write(this.#path(sha256), bytes);
      }
      if (uploadedBy !== null) await writeFile(this.#uploadPath(sha256, uploadedBy), '', { mode: PRIVATE_FILE });
    } catch (error) {
      if (error instanceof TaskError) throw error;
      const why = errorCode(error) ?? errorText(error);
      throw new TaskError(
        'not_stored',
        `the module was not stored: writing to disk failed (${why}); fix the cause, then try again`,
      );
    }
    return sha256;
  }

  /** Whether a caller of the namespace has uploaded the module. */
  isUploadedBy(namespace: string, sha256: string): boolean {
    return existsSync(this.#uploadPath(sha256, namespace));
  }

  /** @throws Error if the module is missing or damaged */
  async read(sha256: string): Promise<Uint8Array> {
    const path = this.#path(sha256);
    // Read errors, unlike open errors, do not name the file.
    const bytes = await readFile(path).catch((error: Error) => Promise.reject(Object.assign(error, { path })));
    if (hash('sha256', bytes) === sha256) return bytes;
    throw new Error(`${path} is damaged: its sha256 does not match its name; remove it and apply the task again`);
  }

  /** Streams the bytes without verification: the receiver compares the digest. Null: not stored. */
  stream(sha256: string): AsyncIterable<Buffer> | null {
    if (!SHA256.test(sha256) || !this.has(sha256)) return null;
    return createReadStream(this.#path(sha256), { highWaterMark: STREAM_BYTES });
  }

  remove(sha256: string): void {
    rmSync(this.#path(sha256), { force: true });
  }

  list(): StoredBlob[] {
    return this.#files(BLOB_FILE).map(({ name, bytes, putAtMs }) => ({
      sha256: BLOB_FILE.exec(name)?.[1] ?? '',
      bytes,
      putAtMs,
    }));
  }

  /** Removes partial files of killed processes, and upload markers that no task used in time. */
  removeStale(olderThanMs: number): void {
    for (const { name, putAtMs } of [...this.#files(PARTIAL_FILE), ...this.#files(UPLOAD_FILE)]) {
      if (putAtMs < olderThanMs) rmSync(join(this.#directory, name), { force: true });
    }
  }

  #files(shape: RegExp) {
    if (!existsSync(this.#directory)) return [];
    return readdirSync(this.#directory).flatMap((name) => {
      const stat = shape.test(name) ? statSync(join(this.#directory, name), { throwIfNoEntry: false }) : undefined;
      return stat === undefined ? [] : [{ name, bytes: stat.size, putAtMs: stat.mtimeMs }];
    });
  }

  #ensureRoom(bytes: number): void {
    if (this.#maxBytes === Number.POSITIVE_INFINITY) return;
    const used = this.list().reduce((sum, blob) => sum + blob.bytes, 0);
    if (used + bytes <= this.#maxBytes) return;
    const why = `the stored modules have ${used} bytes, and the limit is ${this.#maxBytes} (limits.max_blob_bytes)`;
    throw new TaskError('not_stored', `the module of ${bytes} bytes was not stored: ${why}`);
  }

  async #touch(sha256: string): Promise<void> {
    const now = new Date();
    await utimes(this.#path(sha256), now, now);
  }

  /** Atomic and durable: write, fsync, rename, fsync of the directory. */
  async #write(path: string, bytes: Uint8Array): Promise<void> {
    mkdirSync(this.#directory, { recursive: true, mode: PRIVATE_DIRECTORY });
    const partial = `${path}.${randomUUID()}.partial`;
    try {
      await synced(await open(partial, 'wx', PRIVATE_FILE), (file) => file.writeFile(bytes));
      await rename(partial, path);
      await synced(await open(this.#directory, 'r'), async () => {});
    } finally {
      await rm(partial, { force: true });
    }
  }

  #uploadPath(sha256: string, namespace: string): string {
    if (!isNamespace(namespace)) throw new Error('expected a namespace');
    return this.#path(sha256).replace(/wasm$/, `${namespace}.upload`);
  }

  #path(sha256: string): string {
    if (!SHA256.test(sha256)) throw new Error('expected a sha256 in hex');
    return join(this.#directory, `${sha256}.wasm`);
  }
}

async function synced(file: FileHandle, work: (file: FileHandle) => Promise<void>): Promise<void> {
  try {
    await work(file);
    await file.sync();
  } finally {
    await file.close();
  }
}
