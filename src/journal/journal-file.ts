import { closeSync, constants, fchmodSync, fstatSync, fsyncSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { errorCode } from '../base/error-text.ts';
import type { JournalSync } from '../protocol/journal.ts';
import type { BlockCipher } from './block-cipher.ts';
import { NO_BLOCK, sealBlock } from './chain.ts';
import { JournalError } from './journal-error.ts';
import { JournalLock } from './journal-lock.ts';
import type { JournalEnd, JournalWriter, WriterOptions } from './journal-place.ts';

/** What nobody waits for is written after so long at the latest. */
const BATCH_MS = 5;
const MAX_BATCH_CHARS = 256 * 1024;
const PRIVATE = 0o600;
const { O_APPEND, O_CREAT, O_EXCL, O_NONBLOCK, O_RDWR, O_WRONLY } = constants;

export interface JournalFileOptions extends WriterOptions {
  readonly path: string;
  readonly sync: JournalSync;
}

/** A journal that is appended to, by one process. */
export class JournalFile implements JournalWriter {
  readonly #options: JournalFileOptions;
  readonly #lock: JournalLock;
  #fd: number | null;
  #bytes: number;
  #hash: string;
  #lines: string[] = [];
  #chars = 0;
  #timer: NodeJS.Timeout | null = null;
  #isFull = false;

  /** A new file, unless it is said where the old one ends; then it is locked already. @throws JournalError */
  constructor(options: JournalFileOptions, end: JournalEnd | null = null, lock: JournalLock | null = null) {
    this.#options = options;
    this.#bytes = end?.bytes ?? 0;
    this.#hash = end?.hash ?? NO_BLOCK;
    const isNew = end === null;
    const fd = open(options.path, isNew);
    this.#fd = fd;
    this.#lock = lock ?? lockOrClose(options.path, fd);
    if (!isNew && fstatSync(fd).size > end.bytes) ftruncateSync(fd, end.bytes);
    if (isNew && options.cipher !== null) this.#begin(options.cipher);
  }

  append(line: string): void {
    if (this.#isFull) return;
    this.#lines.push(line);
    this.#chars += line.length;
    if (this.#chars > MAX_BATCH_CHARS) this.#late();
    else this.#timer ??= setTimeout(() => this.#late(), BATCH_MS).unref();
  }

  flush(): void {
    if (this.#isFull) this.#fail('what precedes could not be written');
    if (this.#lines.length === 0) return;
    const lines = this.#lines;
    this.#lines = [];
    this.#chars = 0;
    this.#put(lines, this.#options.maxBytes);
  }

  /**
   * The last line may be written beyond the limit, and what waits with it: without it nobody would know how it ended.
   * Where something could not be written before, what came after it is left out: there must be no gap.
   */
  close(last: string): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const fd = this.#fd;
    if (fd === null) return;
    const lines = this.#isFull ? [last] : [...this.#lines, last];
    try {
      this.#put(lines, null);
    } catch {
      // Whoever reads it sees that it has no end.
    }
    this.abandon();
  }

  abandon(): void {
    if (this.#fd === null) return;
    closeSync(this.#fd);
    this.#fd = null;
    this.#lock.release();
  }

  #begin({ firstLine }: BlockCipher): void {
    try {
      this.#put([firstLine], null);
    } catch (error) {
      this.abandon();
      throw error;
    }
  }

  #late(): void {
    this.#timer = null;
    try {
      this.flush();
    } catch {
      // Told by onFull.
    }
  }

  /** Writes a block, or nothing of it. `maxBytes` null: whatever its length. @throws JournalError */
  #put(lines: readonly string[], maxBytes: number | null): void {
    const { path, cipher } = this.#options;
    const isOpening = this.#hash === NO_BLOCK;
    const sealed = cipher === null || isOpening ? lines : [cipher.seal(lines, this.#hash)];
    const { text, hash } = sealBlock(sealed, this.#hash);
    const bytes = Buffer.byteLength(text);
    if (maxBytes !== null && this.#bytes + bytes > maxBytes) {
      this.#fail(`it would have more than limits.journal_bytes = ${maxBytes}`);
    }
    try {
      this.#write(text, bytes);
    } catch (error) {
      this.#takeBack();
      this.#fail(`it cannot be written (${errorCode(error) ?? path})`);
    }
    this.#bytes += bytes;
    this.#hash = hash;
  }

  /** As text, which the system's call encodes on its way: one step less where each begins with cold caches. */
  #write(text: string, bytes: number): void {
    const fd = this.#fd;
    if (fd === null) return;
    let at = writeSync(fd, text);
    if (at < bytes) {
      const encoded = Buffer.from(text);
      while (at < bytes) at += writeSync(fd, encoded, at);
    }
    if (this.#options.sync === 'disk') fsyncSync(fd);
  }

  /** Half a block must not stay where another one may follow. */
  #takeBack(): void {
    if (this.#fd === null) return;
    try {
      ftruncateSync(this.#fd, this.#bytes);
    } catch {
      this.abandon();
    }
  }

  #fail(why: string): never {
    const { path, onFull } = this.#options;
    const error = new JournalError(path, why);
    if (!this.#isFull) onFull(error.message);
    this.#isFull = true;
    throw error;
  }
}

function lockOrClose(path: string, fd: number): JournalLock {
  try {
    return JournalLock.take(path);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

function open(path: string, isNew: boolean): number {
  try {
    if (isNew) return openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL, PRIVATE);
    const fd = openSync(path, O_RDWR | O_APPEND | O_NONBLOCK);
    fchmodSync(fd, PRIVATE);
    return fd;
  } catch (error) {
    const code = errorCode(error);
    if (code === 'EEXIST')
      throw new JournalError(path, 'it is there already; --resume goes on with it, or name another');
    throw new JournalError(path, `it cannot be written (${code})`);
  }
}
