import { closeSync, openSync, readSync } from 'node:fs';
import { isJsonObject, parseJson } from '../../base/json.ts';

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
