import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { errorCode } from '../../base/errors.ts';
import { isJsonObject, parseJson } from '../../base/json.ts';
import { isReserved, rotatedFiles } from './file.ts';

const CHUNK_BYTES = 262_144;
const NEWLINE = 0x0a;
/** No line of ours is longer; what is, is handed on in parts, of which none is a line. */
const MAX_LINE_BYTES = 4 * 1024 * 1024;

export interface FileLine {
  /** From 1. */
  readonly number: number;
  /** Without its newline. */
  readonly text: string;
  /** False: the file ends without a newline. */
  readonly isWhole: boolean;
}

/** The lines of a file, or of its first bytes, without ever holding more than one chunk and one line of it. */
export function* readLines(path: string, bytes = Number.POSITIVE_INFINITY): Generator<FileLine, void, undefined> {
  const fd = openSync(path, 'r');
  const chunk = Buffer.alloc(CHUNK_BYTES);
  let rest: Buffer = Buffer.alloc(0);
  let number = 0;
  let left = bytes;
  const next = () => readSync(fd, chunk, 0, Math.min(CHUNK_BYTES, left), null);
  try {
    for (let read = next(); read > 0; read = next()) {
      left -= read;
      let start = 0;
      let newline = chunk.subarray(0, read).indexOf(NEWLINE);
      while (newline >= 0) {
        const line = Buffer.concat([rest, chunk.subarray(start, newline)]);
        rest = Buffer.alloc(0);
        yield { number: ++number, text: line.toString('utf8'), isWhole: true };
        start = newline + 1;
        newline = chunk.subarray(0, read).indexOf(NEWLINE, start);
      }
      rest = Buffer.concat([rest, chunk.subarray(start, read)]);
      if (rest.byteLength > MAX_LINE_BYTES) {
        yield { number: ++number, text: rest.toString('utf8'), isWhole: true };
        rest = Buffer.alloc(0);
      }
    }
    if (rest.byteLength > 0) yield { number: ++number, text: rest.toString('utf8'), isWhole: false };
  } finally {
    closeSync(fd);
  }
}

/** The object of a line; null if it is none. Blanks before it are what a repair left. */
export function parseLine(text: string): Readonly<Record<string, unknown>> | null {
  const value = parseJson(text);
  return isJsonObject(value) ? value : null;
}

const FOLLOWED_CHUNK_BYTES = 65_536;

/** What is added to a trail after a moment, over all its rotations. Asked now and then; never waits. */
export class AuditFollower {
  readonly #path: string;
  #file: OpenFile | null = null;
  /** Where it begins; null: the file was not there. */
  readonly start: { readonly inode: number; readonly position: number } | null;

  /** From the end of the last whole line of the file as it is now, or from its beginning if it is not there yet. */
  constructor(path: string) {
    this.#path = path;
    this.#file = OpenFile.open(path);
    this.#file?.skipToEnd();
    this.start = this.#file && { inode: this.#file.inode, position: this.#file.position };
  }

  /** Whole lines that were not there before. */
  *read(): Generator<string, void, undefined> {
    this.#file ??= OpenFile.open(this.#path);
    while (this.#file !== null) {
      const next = this.#next(this.#file.inode);
      yield* this.#file.lines(); // after the look at what is next, so that what came before the rotation is read
      if (next === null) return;
      this.#file.close();
      this.#file = next;
    }
  }

  close(): void {
    this.#file?.close();
  }

  /** The file after the one with that inode; null: there is none, or not yet. */
  #next(inode: number): OpenFile | null {
    if (inodeOf(this.#path) === inode) return null;
    const aside = this.#movedAfter(inode);
    if (aside !== null) return isReserved(aside, Date.now()) ? null : OpenFile.open(aside);
    const newest = OpenFile.open(this.#path);
    // It may have been rotated between the two looks: what was opened is then not the next one.
    if (newest === null || this.#movedAfter(inode) === null) return newest;
    newest.close();
    return null;
  }

  #movedAfter(inode: number): string | null {
    const rotated = rotatedFiles(this.#path);
    const at = rotated.findIndex((path) => inodeOf(path) === inode);
    const later = at < 0 ? [] : rotated.slice(at + 1);
    return later.find((path) => isReserved(path, Date.now()) || !isEmpty(path)) ?? null;
  }
}

const inodeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.ino;
const isEmpty = (path: string) => (statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0;

class OpenFile {
  readonly inode: number;
  readonly #fd: number;
  #position = 0;
  #rest: Buffer = Buffer.alloc(0);

  static open(path: string): OpenFile | null {
    try {
      return new OpenFile(openSync(path, 'r'));
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return null;
      throw error;
    }
  }

  private constructor(fd: number) {
    this.#fd = fd;
    this.inode = fstatSync(fd).ino;
  }

  get position(): number {
    return this.#position;
  }

  skipToEnd(): void {
    const { size } = fstatSync(this.#fd);
    const end = Buffer.alloc(Math.min(FOLLOWED_CHUNK_BYTES, size));
    readSync(this.#fd, end, 0, end.byteLength, size - end.byteLength);
    const newline = end.lastIndexOf(NEWLINE);
    this.#position = newline < 0 ? size : size - end.byteLength + newline + 1;
  }

  *lines(): Generator<string, void, undefined> {
    const chunk = Buffer.alloc(FOLLOWED_CHUNK_BYTES);
    for (;;) {
      const read = readSync(this.#fd, chunk, 0, FOLLOWED_CHUNK_BYTES, this.#position);
      if (read === 0) return;
      this.#position += read;
      let start = 0;
      let newline = chunk.subarray(0, read).indexOf(NEWLINE);
      while (newline >= 0) {
        const line = Buffer.concat([this.#rest, chunk.subarray(start, newline)]);
        this.#rest = Buffer.alloc(0);
        start = newline + 1;
        yield line.toString('utf8');
        newline = chunk.subarray(0, read).indexOf(NEWLINE, start);
      }
      this.#rest = Buffer.concat([this.#rest, chunk.subarray(start, read)]);
    }
  }

  close(): void {
    closeSync(this.#fd);
  }
}
