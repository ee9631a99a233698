import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { startOf } from '../../base/text.ts';
import { sha256 } from './chain.ts';
import type { AuditChainEvent } from './event.ts';

const NEWLINE = 0x0a;
const CHUNK_BYTES = 65_536;
/** A longer end without a newline is not a line of ours. */
const MAX_TORN_BYTES = 8 * 1024 * 1024;
/** How much of it is kept in the line that tells of the repair. */
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
