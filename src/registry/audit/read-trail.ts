import { type FileHandle, open } from 'node:fs/promises';
import { errorCode } from '../../base/errors.ts';
import { rotatedFiles } from '../../server/audit/file.ts';
import { parseLine } from '../../server/audit/reader.ts';
import type { TrailLineJson, TrailPageJson } from '../console-api.ts';

const CHUNK_BYTES = 256 * 1024;
const NEWLINE = 0x0a;
/** What one page may cost: who looks for something rare asks again. */
const MAX_SCANNED_BYTES = 16 * 1024 * 1024;
/** A longer line is named and not shown. */
const MAX_SHOWN_BYTES = 64 * 1024;

export interface TrailQuestion {
  /** Lines that stand before this place; null: from the end. */
  readonly before: string | null;
  /** Lines that came after this place, instead. */
  readonly after: string | null;
  readonly limit: number;
  /** Asked about the text of every line. */
  readonly wanted: (text: string) => boolean;
}

/** Of a trail without a line. */
const NOWHERE = '0:0';

interface Place {
  readonly inode: number;
  readonly position: number;
}

interface TrailFile extends Place {
  readonly handle: FileHandle;
  /** Its size when it was opened. */
  readonly position: number;
}

/** Reads lines of a trail and its rotations, newest first, without holding more than a page and a chunk of them. */
export async function readTrail(path: string, question: TrailQuestion): Promise<TrailPageJson> {
  const files = await openFiles(path);
  try {
    return await pageOf(files, question);
  } finally {
    for (const { handle } of files) await handle.close();
  }
}

async function pageOf(files: readonly TrailFile[], question: TrailQuestion): Promise<TrailPageJson> {
  const before = question.before === null ? null : deliveryMetadata(question.before);
  const after = question.after === null ? null : deliveryMetadata(question.after);
  const lines: TrailLineJson[] = [];
  let newest = question.after;
  let scanned = 0;
  let older: string | null = null;
  let isAbove = before !== null;
  reading: for (const file of files) {
    if (isAbove && file.inode !== before?.inode) continue;
    const end = isAbove && before !== null ? Math.min(before.position, file.position) : file.position;
    isAbove = false;
    const start = after !== null && after.inode === file.inode ? after.position : 0;
    for await (const { text, position, bytes } of linesFromEnd(file, start, end)) {
      scanned += bytes;
      // Behind the last whole line: half of one may stand there.
      newest =
        file === files[0] && scanned === bytes ? placeText({ inode: file.inode, position: position + bytes }) : newest;
      if (question.wanted(text)) lines.push(shown(text, placeText({ inode: file.inode, position }), bytes));
      older = placeText({ inode: file.inode, position });
      if (lines.length >= question.limit || scanned >= MAX_SCANNED_BYTES) break reading;
    }
    if (after !== null && after.inode === file.inode) break;
    older = null;
  }
  return { lines, older: after === null ? older : null, newest: newest ?? NOWHERE, scanned_bytes: scanned };
}

function shown(text: string, at: string, bytes: number): TrailLineJson {
  return { at, bytes, line: bytes > MAX_SHOWN_BYTES ? null : ((parseLine(text) ?? null) as TrailLineJson['line']) };
}

/** The whole lines between two places, last first. */
async function* linesFromEnd({ handle }: TrailFile, start: number, end: number) {
  let position = end;
  let rest: Buffer = Buffer.alloc(0);
  while (position > start) {
    const size = Math.min(CHUNK_BYTES, position - start);
    position -= size;
    const chunk = Buffer.alloc(size);
    await handle.read(chunk, 0, size, position);
    let block: Buffer = rest.length === 0 ? chunk : Buffer.concat([chunk, rest]);
    // The first line of the block may begin before it.
    for (let at = previousLine(block); at > 0 || (at === 0 && position === start); at = previousLine(block)) {
      const line = block.subarray(at);
      block = block.subarray(0, at);
      if (line.at(-1) === NEWLINE) {
        yield { text: line.toString('utf8', 0, line.length - 1), position: position + at, bytes: line.length };
      }
      if (at === 0) break;
    }
    rest = block.length > MAX_SCANNED_BYTES ? Buffer.alloc(0) : block;
  }
}

/** Where the last line of a block begins; -1: the block is empty. */
function previousLine(block: Buffer): number {
  if (block.length === 0) return -1;
  const newline = block.length < 2 ? -1 : block.lastIndexOf(NEWLINE, block.length - 2);
  return newline + 1;
}

/** Newest first; those that go away meanwhile are left out. */
async function openFiles(path: string): Promise<TrailFile[]> {
  const files: TrailFile[] = [];
  for (const name of [path, ...rotatedNames(path).reverse()]) {
    try {
      const handle = await open(name, 'r');
      const { ino, size } = await handle.stat();
      files.push({ handle, inode: ino, position: size });
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error;
    }
  }
  return files;
}

function rotatedNames(path: string): string[] {
  try {
    return rotatedFiles(path);
  } catch {
    return [];
  }
}

const placeText = ({ inode, position }: Place) => `${inode}:${position}`;

/** Null: it is no place of ours. */
function deliveryMetadata(text: string): Place | null {
  const digits = /^(\d{1,20}):(\d{1,15})$/.exec(text);
  return digits === null ? null : { inode: Number(digits[1]), position: Number(digits[2]) };
}
