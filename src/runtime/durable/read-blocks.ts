import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { errorCode } from '../../base/error-text.ts';
import { isJsonObject, parseJson } from '../../base/json.ts';
import { type EncryptedLine, encryptedLine } from './block-cipher.ts';
import { isWhole, NO_BLOCK, sealOf } from './chain.ts';
import { UNSEALED_SINCE_FORMAT } from './journal.ts';
import { JournalError } from './journal-error.ts';
import type { JournalEnd } from './journal-place.ts';

const LINE_END = 0x0a;
/** A FIFO is not waited for. */
const READ = constants.O_RDONLY | constants.O_NONBLOCK;

/** Lines that were sealed together, or not sealed yet. */
export interface Block {
  readonly lines: readonly string[];
  /** Of its first line in the file, counted from 1. */
  readonly line: number;
  /** The hash of the block before. */
  readonly previous: string;
}

export interface ReadBlocks {
  readonly blocks: readonly Block[];
  /** What the first line says; null: the journal is not encrypted. */
  readonly encrypted: EncryptedLine | null;
  readonly end: JournalEnd;
  /** Bytes after its last whole line, or block: somebody was ended in the middle of writing. */
  readonly tornBytes: number;
}

/**
 * The blocks of a journal, checked: they are those that were written, in their order. It takes no key.
 * @throws JournalError that names the file and the line
 */
export function readBlocks(file: string): ReadBlocks {
  return blocksIn(file, read(file));
}

/** The same of a journal that was read already; `file` is what it is called. */
export function blocksIn(file: string, bytes: Buffer): ReadBlocks {
  const blocks: Block[] = [];
  let lines: string[] = [];
  let line = 1;
  let hash = NO_BLOCK;
  let whole = 0;
  for (let at = 0, end = bytes.indexOf(LINE_END); end >= 0; at = end + 1, end = bytes.indexOf(LINE_END, at)) {
    const text = bytes.toString('utf8', at, end);
    lines.push(text);
    const seal = sealOf(text);
    if (seal === null) continue;
    if (!isWhole(lines, hash)) {
      const last = line + lines.length - 1;
      throw new JournalError(file, `line ${last}: the block was changed or damaged: its hash does not match`);
    }
    blocks.push({ lines, line, previous: hash });
    line += lines.length;
    lines = [];
    hash = seal;
    whole = end + 1;
  }
  const encrypted = encryption(file, blocks[0]);
  const unsealed = encrypted === null && countsUnsealed(blocks[0]) ? wholeLines(lines) : [];
  if (unsealed.length > 0) blocks.push({ lines: unsealed, line, previous: hash });
  const rest = unsealed.map((text) => `${text}\n`).join('');
  const counted = whole + Buffer.byteLength(rest);
  return { blocks, encrypted, end: { bytes: counted, hash, unsealed: rest }, tornBytes: bytes.length - counted };
}

/** Whether lines count that were written and not sealed when their writer was killed. */
function countsUnsealed(first: Block | undefined): boolean {
  const header = parseJson(first?.lines[0] ?? '');
  return isJsonObject(header) && Number(header.format) >= UNSEALED_SINCE_FORMAT;
}

/** Where the whole machine fell down, there may be anything: what follows the first line that is none does not count. */
function wholeLines(lines: readonly string[]): readonly string[] {
  const bad = lines.findIndex((text) => !isJsonObject(parseJson(text)));
  return bad < 0 ? lines : lines.slice(0, bad);
}

function encryption(file: string, first: Block | undefined): EncryptedLine | null {
  try {
    return encryptedLine(parseJson(first?.lines[0] ?? ''));
  } catch (error) {
    throw new JournalError(file, (error as Error).message);
  }
}

function read(file: string): Buffer {
  let fd: number | null = null;
  try {
    fd = openSync(file, READ);
    if (!fstatSync(fd).isFile()) throw new JournalError(file, 'not a regular file');
    return readFileSync(fd);
  } catch (error) {
    if (error instanceof JournalError) throw error;
    throw new JournalError(file, `cannot read the journal (${errorCode(error)})`, error);
  } finally {
    if (fd !== null) closeSync(fd);
  }
}
