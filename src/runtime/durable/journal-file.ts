/*
 * Writer of a journal file: appends lines, batches and seals them, and locks the file.
 *
 * Invariants
 * - One process writes to a journal (`JournalLock`).
 * - When `flush` returns, everything appended before is written: with write(2), or also with fsync (`sync: 'disk'`).
 * - The file has no gap and no partial block: a failed write is rolled back, and nothing is written after it but the last line.
 * - Appended lines are written within BATCH_MS and sealed then, without a flush.
 *
 * Used synchronously on the host thread. Another storage (`JournalStorage`) supplies its own `JournalWriter`.
 */
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  openSync,
  realpathSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { errorCode, errorText } from '../../base/errors.ts';
import { type BlockCipher, NO_BLOCK, sealBlock } from './blocks.ts';
import type { JournalSync } from './journal.ts';
import { JournalError } from './journal-error.ts';

/** Maximum delay until appended lines are written and sealed. */
const BATCH_MS = 5;
/** Carries the seal if there is nothing else to write. */
const SEAL_ALONE = '{"t":"seal"}';
const MAX_BATCH_CHARS = 256 * 1024;
const PRIVATE = 0o600;
const { O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDWR, O_WRONLY } = constants;

export interface JournalFileOptions extends WriterOptions {
  readonly path: string;
  readonly sync: JournalSync;
  /** Format 1: unsealed lines do not count, so every write is sealed. */
  readonly sealsAtOnce: boolean;
}

export class JournalFile implements JournalWriter {
  readonly #options: JournalFileOptions;
  readonly #lock: JournalLock;
  #fd: number | null;
  /** Whether every write seals its block. Otherwise one hash covers several writes, which costs less. */
  readonly #sealsAtOnce: boolean;
  #bytes: number;
  #hash: string;
  /** Lines written since the last seal. */
  #unsealed: string;
  /** Lines that are not written yet. */
  #pending = '';
  #timer: NodeJS.Timeout | null = null;
  #hasFailed = false;

  /** `end`: where an existing journal continues, with its lock. @default a new file @throws JournalError */
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
    if (this.#hasFailed) return;
    this.#pending += `${line}\n`;
    if (this.#pending.length + this.#unsealed.length > MAX_BATCH_CHARS) this.#writeBatch();
    else this.#timer ??= setTimeout(() => this.#writeBatch(), BATCH_MS).unref();
  }

  flush(): void {
    if (this.#hasFailed) this.#fail('an earlier write failed');
    if (this.#pending === '') return;
    if (this.#sealsAtOnce || this.#hash === NO_BLOCK) this.#seal();
    else {
      const lines = this.#takePending();
      this.#put(lines, this.#options.maxBytes);
      this.#unsealed += lines;
    }
  }

  /**
   * Writes the last line, and pending ones before it, also beyond the size limit. After a failed write, pending lines are
   * dropped: the journal must not have a gap.
   */
  close(last: string): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const fd = this.#fd;
    if (fd === null) return;
    const lines = this.#takePending();
    try {
      this.#putSealed(this.#hasFailed ? last : lines + last, null);
    } catch {
      // The journal then has no end record.
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

  #writeBatch(): void {
    this.#timer = null;
    try {
      if (!this.#hasFailed) this.#seal();
    } catch {
      // Reported by onFull.
    }
  }

  #takePending(): string {
    const lines = this.#pending;
    this.#pending = '';
    return lines;
  }

  #seal(): void {
    const lines = this.#takePending();
    if (lines !== '') this.#putSealed(lines.slice(0, -1), this.#options.maxBytes);
    else if (this.#unsealed !== '') this.#putSealed(SEAL_ALONE, this.#options.maxBytes);
  }

  /** `lines` without the final line end. */
  #putSealed(lines: string, maxBytes: number | null): void {
    const { cipher } = this.#options;
    const isOpening = this.#hash === NO_BLOCK;
    const sealed = cipher === null || isOpening ? lines : cipher.seal(lines, this.#hash);
    const { text, hash } = sealBlock([sealed], this.#hash, this.#unsealed);
    this.#put(text, maxBytes);
    this.#unsealed = '';
    this.#hash = hash;
  }

  /** Writes all or nothing. `maxBytes` null: no limit. @throws JournalError */
  #put(text: string, maxBytes: number | null): void {
    const { path } = this.#options;
    const bytes = Buffer.byteLength(text);
    if (maxBytes !== null && this.#bytes + bytes > maxBytes) {
      this.#fail(`the journal would exceed limits.journal_bytes = ${maxBytes}`);
    }
    try {
      this.#write(text, bytes);
    } catch (error) {
      this.#rollBack();
      this.#fail(`cannot write the journal (${errorCode(error) ?? path})`, error);
    }
    this.#bytes += bytes;
  }

  /** Passes text to write(2), which encodes it on its way. perf: bench/topics/journal.ts */
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

  /** Removes a partial write. */
  #rollBack(): void {
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
    if (!this.#hasFailed) onFull(error);
    this.#hasFailed = true;
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

/** Creates the file, or reuses an empty one, whose writer was killed before its guest started. */
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

/** Attempts: the previous holder may remove the lock file while it is being locked. */
const TRIES = 10;

/**
 * Lock of a journal: a system lock on a file beside it, taken through SQLite because Node has no call for it. The system
 * releases it when the process ends in any way; an empty lock file that is left does no harm.
 */
export class JournalLock {
  readonly #path: string;
  readonly #held: DatabaseSync;

  private constructor(path: string, held: DatabaseSync) {
    this.#path = path;
    this.#held = held;
  }

  /** Precondition: the journal exists. @throws JournalError if another process holds the lock */
  static take(journal: string): JournalLock {
    try {
      // The real path: links to a journal share its lock.
      const path = `${realpathSync(journal)}.lock`;
      for (let left = TRIES; left > 0; left--) {
        const held = tryOnce(path);
        if (held !== null) return new JournalLock(path, held);
      }
      throw new Error('the file was removed repeatedly');
    } catch (error) {
      const reason = errorText(error);
      if (reason.includes('locked')) throw new JournalError(journal, 'another process is writing this journal');
      throw new JournalError(journal, `cannot lock ${journal}.lock (${errorCode(error) ?? reason})`, error);
    }
  }

  release(): void {
    rmSync(this.#path, { force: true });
    this.#held.close();
  }
}

/** Null: the lock file was removed meanwhile. */
function tryOnce(path: string): DatabaseSync | null {
  closeSync(openSync(path, 'a', PRIVATE));
  const { ino } = statSync(path);
  const held = new DatabaseSync(path, { timeout: 0 });
  try {
    held.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE'); // no second file beside it
    if (statSync(path, { throwIfNoEntry: false })?.ino === ino) return held;
  } catch (error) {
    held.close();
    throw error;
  }
  held.close();
  return null;
}

/** Destination of a journal's lines. */
export interface JournalWriter {
  /** Appends a line, to be written soon and in order. Does nothing after a failed write. */
  append(line: string): void;
  /**
   * Writes everything appended so far. With `written`, the write is only started.
   * @throws JournalError if writing failed
   */
  flush(): void;
  /** Of an asynchronous storage: resolves when everything so far is written. @throws JournalError */
  readonly written?: (() => Promise<void>) | undefined;
  /** Writes the last line, also beyond the size limit. */
  close(last: string): void;
  /** Closes without a last line. */
  abandon(): void;
}

/** Where an existing journal continues. */
export interface JournalEnd {
  /** Length of the valid part; the rest is cut off. */
  readonly bytes: number;
  /** Hash of the last block. */
  readonly hash: string;
  /** Valid lines after that block, not sealed yet. */
  readonly unsealed: string;
}

export interface WriterOptions {
  readonly maxBytes: number;
  /** Null: the journal is not encrypted. */
  readonly cipher: BlockCipher | null;
  /** The journal is full or cannot be written, so the run must end. */
  readonly onFull: (why: JournalError) => void;
}

/** Storage of one journal other than a file. */
export interface JournalStorage {
  /** Current content; null: none. */
  readonly bytes: Uint8Array | null;
  writer(options: WriterOptions, end: JournalEnd | null): JournalWriter;
}
