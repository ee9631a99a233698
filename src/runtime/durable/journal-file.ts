import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  openSync,
  writeSync,
} from 'node:fs';
import { errorCode } from '../../base/error-text.ts';
import type { BlockCipher } from './block-cipher.ts';
import { NO_BLOCK, sealBlock } from './chain.ts';
import type { JournalSync } from './journal.ts';
import { JournalError } from './journal-error.ts';
import { JournalLock } from './journal-lock.ts';
import type { JournalEnd, JournalWriter, WriterOptions } from './journal-place.ts';

/** What nobody waits for is written after so long at the latest, and what was written is sealed. */
const BATCH_MS = 5;
/** A seal where nothing else is to be written. */
const SEAL_ALONE = '{"t":"seal"}';
const MAX_BATCH_CHARS = 256 * 1024;
const PRIVATE = 0o600;
const { O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDWR, O_WRONLY } = constants;

export interface JournalFileOptions extends WriterOptions {
  readonly path: string;
  readonly sync: JournalSync;
  /** Of format 1: what is not sealed does not count. */
  readonly sealsAtOnce: boolean;
}

/** A journal that is appended to, by one process. */
export class JournalFile implements JournalWriter {
  readonly #options: JournalFileOptions;
  readonly #lock: JournalLock;
  #fd: number | null;
  /** Whether a block is sealed with its write. One hash for many costs less, and nobody but this process can lose its seal. */
  readonly #sealsAtOnce: boolean;
  #bytes: number;
  #hash: string;
  /** Written since the last seal. */
  #unsealed: string;
  /** Lines that are not written, each with its end. */
  #waiting = '';
  #timer: NodeJS.Timeout | null = null;
  #isFull = false;

  /** A new file, unless it is said where the old one ends; then it is locked already. @throws JournalError */
  constructor(options: JournalFileOptions, end: JournalEnd | null = null, lock: JournalLock | null = null) {
    this.#options = options;
    this.#bytes = end?.bytes ?? 0;
    this.#hash = end?.hash ?? NO_BLOCK;
    this.#unsealed = end?.unsealed ?? '';
    this.#sealsAtOnce = options.sealsAtOnce || options.cipher !== null || options.sync === 'disk';
    const isNew = end === null;
    const fd = open(options.path, isNew);
    this.#fd = fd;
    this.#lock = lock ?? lockOrClose(options.path, fd);
    if (isNew && fstatSync(fd).size > 0) {
      this.abandon();
      throw exists(options.path); // another process wrote it before this one had the lock
    }
    if (!isNew && fstatSync(fd).size > end.bytes) ftruncateSync(fd, end.bytes);
    if (isNew && options.cipher !== null) this.#begin(options.cipher);
  }

  append(line: string): void {
    if (this.#isFull) return;
    this.#waiting += `${line}\n`;
    if (this.#waiting.length + this.#unsealed.length > MAX_BATCH_CHARS) this.#late();
    else this.#timer ??= setTimeout(() => this.#late(), BATCH_MS).unref();
  }

  flush(): void {
    if (this.#isFull) this.#fail('an earlier write failed');
    if (this.#waiting === '') return;
    if (this.#sealsAtOnce || this.#hash === NO_BLOCK) this.#seal();
    else {
      const lines = this.#taken();
      this.#put(lines, this.#options.maxBytes);
      this.#unsealed += lines;
    }
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
    const lines = this.#taken();
    try {
      this.#putSealed(this.#isFull ? last : lines + last, null);
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
      this.#putSealed(firstLine, null);
    } catch (error) {
      this.abandon();
      throw error;
    }
  }

  #late(): void {
    this.#timer = null;
    try {
      if (!this.#isFull) this.#seal();
    } catch {
      // Told by onFull.
    }
  }

  #taken(): string {
    const lines = this.#waiting;
    this.#waiting = '';
    return lines;
  }

  #seal(): void {
    const lines = this.#taken();
    if (lines !== '') this.#putSealed(lines.slice(0, -1), this.#options.maxBytes);
    else if (this.#unsealed !== '') this.#putSealed(SEAL_ALONE, this.#options.maxBytes);
  }

  /** The last of the lines without its end. */
  #putSealed(lines: string, maxBytes: number | null): void {
    const { cipher } = this.#options;
    const isOpening = this.#hash === NO_BLOCK;
    const sealed = cipher === null || isOpening ? lines : cipher.seal(lines, this.#hash);
    const { text, hash } = sealBlock([sealed], this.#hash, this.#unsealed);
    this.#put(text, maxBytes);
    this.#unsealed = '';
    this.#hash = hash;
  }

  /** Writes all of it, or nothing. `maxBytes` null: whatever its length. @throws JournalError */
  #put(text: string, maxBytes: number | null): void {
    const { path } = this.#options;
    const bytes = Buffer.byteLength(text);
    if (maxBytes !== null && this.#bytes + bytes > maxBytes) {
      this.#fail(`the journal would exceed limits.journal_bytes = ${maxBytes}`);
    }
    try {
      this.#write(text, bytes);
    } catch (error) {
      this.#takeBack();
      this.#fail(`cannot write the journal (${errorCode(error) ?? path})`, error);
    }
    this.#bytes += bytes;
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

  #fail(why: string, cause?: unknown): never {
    const { path, onFull } = this.#options;
    const error = new JournalError(path, why, cause);
    if (!this.#isFull) onFull(error);
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
    if (isNew) return create(path);
    const fd = openSync(path, O_RDWR | O_APPEND | O_NONBLOCK);
    fchmodSync(fd, PRIVATE);
    return fd;
  } catch (error) {
    if (error instanceof JournalError) throw error;
    throw new JournalError(path, `cannot create the journal (${errorCode(error)})`, error);
  }
}

/** A new file, or an empty one: its writer was killed before the guest started, so nothing is lost. */
function create(path: string): number {
  try {
    return openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL, PRIVATE);
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  }
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isFile() !== true || found.size > 0) throw exists(path);
  const fd = openSync(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK);
  fchmodSync(fd, PRIVATE);
  return fd;
}

const exists = (path: string) =>
  new JournalError(path, 'the journal exists already; continue it with --resume, or name another file');
