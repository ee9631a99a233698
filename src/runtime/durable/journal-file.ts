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
import { errorCode, errorText } from '../../base/error-text.ts';
import { type BlockCipher, NO_BLOCK, sealBlock } from './blocks.ts';
import type { JournalSync } from './journal.ts';
import { JournalError } from './journal-error.ts';

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

/** Its holder may remove the file between two steps of who comes next. */
const TRIES = 10;

/**
 * One process writes to a journal. The lock is that of the system on a file beside it, which SQLite takes: Node has no
 * call for it. A process that is ended in whatever way lets go of it; the empty file that stays then is in nobody's way.
 */
export class JournalLock {
  readonly #path: string;
  readonly #held: DatabaseSync;

  private constructor(path: string, held: DatabaseSync) {
    this.#path = path;
    this.#held = held;
  }

  /** Precondition: the journal is there. @throws JournalError where another has it */
  static take(journal: string): JournalLock {
    try {
      // Under whatever name it is known: links to a journal are the same journal.
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

/** Null: what was locked is not there any more under this name. */
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

/** Where the lines of a journal go, by one writer. */
export interface JournalWriter {
  /** Written soon, and before anything that is written at once; nothing is, once something could not be. */
  append(line: string): void;
  /**
   * Everything so far is written when this returns, unless there is `written`: then it is on its way.
   * @throws JournalError if it cannot be
   */
  flush(): void;
  /** For a place that answers later: everything so far is written when it resolves. @throws JournalError */
  readonly written?: (() => Promise<void>) | undefined;
  /** The last line may be written beyond the limit. Nothing follows it. */
  close(last: string): void;
  /** Nothing more is written. */
  abandon(): void;
}

/** Where an existing journal goes on. */
export interface JournalEnd {
  /** Of what counts: what follows is cut off. */
  readonly bytes: number;
  /** Of its last block. */
  readonly hash: string;
  /** What follows that block, and has no hash yet. */
  readonly unsealed: string;
}

export interface WriterOptions {
  readonly maxBytes: number;
  /** Null: it is written in the clear. */
  readonly cipher: BlockCipher | null;
  /** It has no more room, or cannot be written: the run is to end. */
  readonly onFull: (why: JournalError) => void;
}

/** A place for the blocks of one journal that is no file. */
export interface JournalStorage {
  /** What it has so far; null: nothing. */
  readonly bytes: Uint8Array | null;
  writer(options: WriterOptions, end: JournalEnd | null): JournalWriter;
}
