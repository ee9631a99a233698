import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import { startOf } from '../../base/text.ts';
import { sha256 } from './chain.ts';
import type { AuditChainEvent } from './event.ts';

const { O_APPEND, O_CREAT, O_NONBLOCK, O_RDWR, O_WRONLY } = constants;
const MODE = 0o600;
/** A full pipe is asked again after so long. */
const RETRY_MS = 5;

export interface AuditFileOptions {
  /** null: standard output. */
  readonly path: string | null;
  /** 0: never rotated. */
  readonly maxBytes: number;
  readonly keep: number;
}

/** What has to be told before the next lines. */
export interface Prepared {
  /** The lines go to another file than those before. */
  readonly switched: boolean;
  readonly repair: TailRepair | null;
}

const STDOUT = 1;
const nothing: Prepared = { switched: false, repair: null };

/**
 * File of an audit log, to which several processes may append. Every write is whole lines in one system call. Before each
 * write it checks whether another process has rotated the file or died in the middle of a line.
 */
export class AuditFile {
  readonly #options: AuditFileOptions;
  #fd: number | null = null;
  #isFile = false;
  #isReadable = false;
  #inode = 0;
  /** Where the last write of this process ended; a different end is the work of another one. */
  #end = -1;
  #rotates: boolean;

  constructor(options: AuditFileOptions) {
    this.#options = options;
    this.#rotates = options.maxBytes > 0;
  }

  /** Precondition of {@link write}. @throws the error of the system */
  prepare(bytes: number): Prepared {
    const { path, maxBytes, keep } = this.#options;
    if (path === null) {
      this.#fd = STDOUT;
      return nothing;
    }
    const reopened =
      this.#fd !== null && this.#isFile && statSync(path, { throwIfNoEntry: false })?.ino !== this.#inode;
    if (reopened) this.close();
    const fd = this.#fd ?? this.#open(path);
    if (!this.#isFile) return { switched: reopened, repair: null };
    const { size } = fstatSync(fd);
    if (size !== this.#end && this.#isReadable && endsTorn(fd, size)) {
      return { switched: reopened, repair: repairTail(fd, path) };
    }
    if (!this.#rotates || size === 0 || size + bytes <= maxBytes || !this.#rotate(path, keep)) {
      return { switched: reopened, repair: null };
    }
    this.close();
    this.#open(path);
    return { switched: true, repair: null };
  }

  /** As much as the system took, and why not the rest. */
  write(bytes: Uint8Array): { readonly written: number; readonly error: NodeJS.ErrnoException | null } {
    let written = 0;
    while (written < bytes.byteLength) {
      try {
        written += writeSync(this.#fd as number, bytes, written);
      } catch (error) {
        if (errorCode(error) !== 'EAGAIN') {
          this.#end = -1;
          return { written, error: error as NodeJS.ErrnoException };
        }
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
      }
    }
    if (this.#isFile) this.#end = fstatSync(this.#fd as number).size;
    return { written, error: null };
  }

  close(): void {
    if (this.#fd !== null && this.#fd !== STDOUT) closeSync(this.#fd);
    this.#fd = null;
  }

  #open(path: string): number {
    const fd = openAuditPath(path);
    const found = fstatSync(fd.number);
    this.#fd = fd.number;
    this.#isReadable = fd.isReadable;
    this.#isFile = found.isFile();
    this.#inode = found.ino;
    this.#end = -1;
    return fd.number;
  }

  /** If rotation fails, the audit log continues in the same file: losing lines would be worse. */
  #rotate(path: string, keep: number): boolean {
    try {
      return rotate(path, this.#inode, keep, Date.now());
    } catch {
      this.#rotates = false;
      return false;
    }
  }
}

/**
 * Opens the file, or a pipe in non-blocking mode: waits neither for a reader nor for room in the pipe.
 * @throws the error of the system
 */
export function openAuditPath(path: string): { readonly number: number; readonly isReadable: boolean } {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found && !found.isFile()) {
    return { number: openSync(path, O_WRONLY | O_APPEND | O_NONBLOCK), isReadable: false };
  }
  try {
    return { number: openSync(path, O_RDWR | O_APPEND | O_CREAT, MODE), isReadable: true };
  } catch (error) {
    if (errorCode(error) !== 'EACCES') throw error;
    return { number: openSync(path, O_WRONLY | O_APPEND | O_CREAT, MODE), isReadable: false };
  }
}

/** Longer than any rotation takes: a process that reserved a number and did not use it by then has died. */
const RESERVATION_MS = 10_000;

/** Rotated files of an audit log, oldest first: FILE.1, FILE.2, … A number is not reused while its file exists. */
export function rotatedFiles(path: string): string[] {
  return rotatedNumbers(path).map((number) => `${path}.${number}`);
}

function rotatedNumbers(path: string): number[] {
  const prefix = `${basename(path)}.`;
  return readdirSync(dirname(path))
    .filter((name) => name.startsWith(prefix) && /^[1-9]\d{0,14}$/.test(name.slice(prefix.length)))
    .map((name) => Number(name.slice(prefix.length)))
    .sort((a, b) => a - b);
}

/**
 * Moves the file with that inode aside and removes the oldest beyond `keep`. Several processes may try at the same time:
 * a new number is reserved by creating its file, so no file is ever overwritten. False: another process is rotating.
 */
export function rotate(path: string, inode: number, keep: number, nowMs: number): boolean {
  const numbers = rotatedNumbers(path);
  const newest = numbers.at(-1) ?? 0;
  if (newest > 0 && isReserved(`${path}.${newest}`, nowMs)) return false;
  const target = `${path}.${newest + 1}`;
  try {
    closeSync(openSync(target, 'wx', 0o600));
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false;
    throw error;
  }
  // The reserved number keeps other processes from moving the file; one may have moved it before.
  if (statSync(path, { throwIfNoEntry: false })?.ino !== inode) {
    rmSync(target, { force: true });
    return true;
  }
  renameSync(path, target);
  const tooMany = [...numbers, newest + 1].slice(0, -keep);
  for (const number of tooMany) rmSync(join(dirname(path), `${basename(path)}.${number}`), { force: true });
  return true;
}

/** Whether a process is about to move a file there. */
export function isReserved(path: string, nowMs: number): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  return found !== undefined && found.size === 0 && nowMs - found.mtimeMs < RESERVATION_MS;
}

const NEWLINE = 0x0a;
const CHUNK_BYTES = 65_536;
/** A longer end without a newline is not a line of ours. */
const MAX_TORN_BYTES = 8 * 1024 * 1024;
/** Bytes of the incomplete line that the repair event retains. */
const KEPT_CHARS = 4_096;
/** Where the file system does not hold writers apart: what another process is writing is looked at again after so long. */
const SETTLE_MS = 20;
const NOTHING = new Uint8Array();
const ourBeginning = '{"v":';

export type Repaired = Extract<AuditChainEvent, { event: 'chain.repaired' }>;

/** What the file needs before the next line: nothing, a newline because its end is none of ours, or a repair was made. */
export interface TailRepair {
  readonly event: Repaired;
  readonly needsNewline: boolean;
}

/**
 * Half a line at the end of the file, left by a writer that died or by a full disk, is overwritten with blanks: the next
 * line follows on the same line, where JSON allows them, and readers of lines never meet the half. Nothing is cut off,
 * because another process may be appending. `fd`: the file, open for reading and appending, which was at `path`.
 */
export function repairTail(fd: number, path: string): TailRepair | null {
  const torn = tornEnd(fd);
  if (torn === null) return null;
  awaitWriters(fd);
  const again = tornEnd(fd);
  if (again === null || again.start !== torn.start || again.bytes.byteLength !== torn.bytes.byteLength) return null;
  const text = torn.bytes.toString('utf8');
  const ours = text.startsWith(ourBeginning) || ourBeginning.startsWith(text) || /^[\0 ]*$/.test(text);
  return {
    event: {
      event: 'chain.repaired',
      torn_bytes: torn.bytes.byteLength,
      torn_sha256: sha256(torn.bytes),
      torn: ours ? startOf(text.replaceAll('\0', ''), KEPT_CHARS) : '',
    },
    needsNewline: !(ours && blankOut(fd, path, torn)),
  };
}

/**
 * False: it may only be appended to, or was moved aside meanwhile. Then it keeps its half line; verifying knows it by its
 * hash.
 */
function blankOut(fd: number, path: string, { start, bytes: { byteLength } }: TornEnd): boolean {
  let overwriting: number;
  try {
    overwriting = openSync(path, 'r+');
  } catch {
    return false;
  }
  try {
    if (fstatSync(overwriting).ino !== fstatSync(fd).ino) return false;
    writeSync(overwriting, Buffer.alloc(byteLength, ' '), 0, byteLength, start);
    return true;
  } finally {
    closeSync(overwriting);
  }
}

/** Whether the last byte is something else than a newline. */
export function endsTorn(fd: number, size: number): boolean {
  const last = Buffer.alloc(1);
  return size > 0 && readSync(fd, last, 0, 1, size - 1) === 1 && last[0] !== NEWLINE;
}

interface TornEnd {
  readonly start: number;
  readonly bytes: Buffer;
}

function tornEnd(fd: number): TornEnd | null {
  const { size } = fstatSync(fd);
  if (!endsTorn(fd, size)) return null;
  let bytes = Buffer.alloc(0);
  let start = size;
  while (start > 0 && bytes.byteLength < MAX_TORN_BYTES) {
    const length = Math.min(CHUNK_BYTES, start);
    const chunk = Buffer.alloc(length);
    readSync(fd, chunk, 0, length, start - length);
    const newline = chunk.lastIndexOf(NEWLINE);
    bytes = Buffer.concat([chunk.subarray(newline + 1), bytes]);
    start -= length - (newline + 1);
    if (newline >= 0) break;
  }
  return { start, bytes };
}

/**
 * What another process is writing at this moment can be seen in part, and is not torn. The system lets one write at a
 * time, so a write of nothing is over when that one is, however long it was held up.
 */
export function awaitWriters(fd: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, SETTLE_MS);
  writeSync(fd, NOTHING);
}
