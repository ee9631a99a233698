import { closeSync, constants, fstatSync, openSync, statSync, writeSync } from 'node:fs';
import { errorCode } from '../../base/errors.ts';
import { endsTorn, repairTail, type TailRepair } from './repair.ts';
import { rotate } from './rotation.ts';

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
 * The file of a trail, to which several processes may append. Every write is whole lines in one call of the system, and
 * before it one looks whether another process has rotated the file or died in the middle of a line.
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

  /** A trail that cannot be moved aside goes on where it is: lines matter more than their place. */
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
 * For a pipe, never waiting: neither for somebody to open its other end nor for a place in it.
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
