/*
 * Reader of journals: splits a file into blocks, verifies their hash chain, decrypts them, and checks every record.
 *
 * A journal is input that anyone may have written, so every field that a consumer relies on is checked here. A damaged
 * block is an error; an incomplete line or block at the end is what a crash leaves, and is ignored.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { errorCode } from '../../base/errors.ts';
import { isJsonObject, type JsonObject, parseJson } from '../../base/json.ts';
import { abiVersion } from '../abi/calls.ts';
import { isEventsText } from '../port/journal-events.ts';
import {
  BlockCipher,
  type EncryptedLine,
  encryptedLine,
  isWhole,
  type JournalKey,
  NO_BLOCK,
  sealOf,
} from './blocks.ts';
import {
  isReadFormat,
  JOURNAL_FORMAT,
  type JournalHeader,
  type JournalRecord,
  type TimedRecord,
  UNSEALED_SINCE_FORMAT,
} from './journal.ts';
import { JournalError, JournalHeaderMissing, JournalKeyMissing } from './journal-error.ts';
import type { JournalEnd } from './journal-file.ts';

export interface ReadJournal {
  readonly file: string;
  readonly header: JournalHeader;
  readonly records: readonly TimedRecord[];
  readonly end: JournalEnd;
  /** Bytes after the last complete line or block: its writer was killed while writing. */
  readonly tornBytes: number;
  /** For later blocks; null: the journal is not encrypted. */
  readonly cipher: BlockCipher | null;
}

/**
 * Reads and verifies a journal.
 * @throws JournalError that names the file and the line; JournalKeyMissing if it is encrypted and no key was given
 */
export function readJournal(
  file: string,
  key: JournalKey | null = null,
  /** Content in memory. @default that of the file */
  bytes: Uint8Array | null = null,
): ReadJournal {
  const { blocks, encrypted, end, tornBytes } = bytes === null ? readBlocks(file) : blocksIn(file, Buffer.from(bytes));
  const cipher = encrypted === null ? null : cipherOf(file, encrypted, key);
  const values: JsonObject[] = [];
  for (const block of cipher === null ? blocks : blocks.slice(1)) {
    const lines = cipher === null ? block.lines : opened(file, cipher, block);
    for (const [at, line] of lines.entries()) {
      values.push(parsed(file, cipher === null ? block.line + at : block.line, line));
    }
  }
  const [header, ...records] = values;
  return { file, header: checkedHeader(file, header), records: known(records), end, tornBytes, cipher };
}

/**
 * Rejects an unencrypted journal where a key is configured, before its run resumes: a user without the key may have
 * replaced an encrypted journal with it. @throws JournalError
 */
export function requireEncrypted({ file, cipher }: ReadJournal, key: JournalKey | null): void {
  if (key === null || cipher !== null) return;
  const why = 'the journal is not encrypted, but a journal key is configured: it was begun without a key, or replaced';
  throw new JournalError(file, `${why}; if you trust it, resume it with a config without [journal] key`);
}

function cipherOf(
  file: string,
  { key: id, salt }: NonNullable<ReadBlocks['encrypted']>,
  key: JournalKey | null,
): BlockCipher {
  if (key === null) throw new JournalKeyMissing(file, id);
  if (key.id === id) return new BlockCipher(key, salt);
  throw new JournalError(file, `encrypted with key ${id}, but the given key is ${key.id}`);
}

function opened(file: string, cipher: BlockCipher, { lines, line, previous }: Block): readonly string[] {
  const found = lines.length === 1 ? cipher.open(parseJson(lines[0] ?? ''), previous) : null;
  if (found !== null) return found;
  throw new JournalError(file, `line ${line}: the block was changed or damaged: decryption failed`);
}

function parsed(file: string, line: number, text: string): JsonObject {
  const value = parseJson(text);
  if (!isJsonObject(value) || typeof value.t !== 'string') {
    throw new JournalError(file, `line ${line}: not a journal record`);
  }
  // An unknown format is reported rather than its fields.
  const hasUnknownFormat = value.t === 'header' && !isReadFormat(value.format);
  const wrong = isKnownKind(value) && !hasUnknownFormat ? wrongField(value) : null;
  if (wrong === null) return value;
  throw new JournalError(file, `line ${line}: field ${wrong} of the ${value.t} record is missing or invalid`);
}

function checkedHeader(file: string, value: unknown): JournalHeader {
  if (!isJsonObject(value) || value.t !== 'header') throw new JournalHeaderMissing(file);
  const { format, abi } = value;
  if (!isReadFormat(format)) {
    throw new JournalError(
      file,
      `unknown journal format ${JSON.stringify(format)}; this Spear reads formats up to ${JOURNAL_FORMAT}: use the Spear that wrote the journal (${JSON.stringify(value.spear)}) or a newer one`,
    );
  }
  if (!Array.isArray(abi) || abi[0] !== abiVersion.major) {
    throw new JournalError(file, `recorded with ABI ${JSON.stringify(abi)}, this Spear has ABI ${abiVersion.major}`);
  }
  return value as unknown as JournalHeader;
}

/** Leaves out records of unknown kinds; their hashes were verified all the same. */
const known = (records: readonly JsonObject[]) => records.filter(isKnownKind) as readonly unknown[] as TimedRecord[];

type Check = (value: unknown) => boolean;

const text: Check = (value) => typeof value === 'string';
const count: Check = (value) => Number.isSafeInteger(value) && Number(value) >= 0;
const flag: Check = (value) => typeof value === 'boolean';
const list: Check = (value) => Array.isArray(value);
const texts: Check = (value) => Array.isArray(value) && value.every(text);
const variables: Check = (value) => isJsonObject(value) && Object.values(value).every(text);
const module: Check = (value) =>
  isJsonObject(value) && text(value.sha256) && (value.path === null || typeof value.path === 'string');

/** Fields that consumers of a record rely on. */
const shapes: Readonly<Record<JournalRecord['t'] | 'header', Readonly<Record<string, Check>>>> = {
  header: {
    run: text,
    started: count,
    spear: text,
    v8: text,
    arch: text,
    wasm: module,
    args: texts,
    env: variables,
    limits: isJsonObject,
    verbose: flag,
    unknown_imports: flag,
    streams: flag,
    policy: isJsonObject,
  },
  guest: { e: isEventsText },
  reply: { call: count, m: list },
  tools: { session: text, params: list, set: count },
  'model.asked': { call: count, n: count },
  'model.answered': { call: count, n: count },
  'tool.started': { ordinal: text, args: text },
  'tool.finished': { ordinal: text, result: text },
  approval: { event: isJsonObject },
  output: { fd: (value) => value === 'stdout' || value === 'stderr', at: count, b: text },
  resumed: { attempt: count },
  end: { reason: (value) => text(value) && value !== '', exit: (value) => value === null || Number.isInteger(value) },
};

/** Whether this version knows records of this kind. */
export const isKnownKind = ({ t }: JsonObject): boolean => typeof t === 'string' && Object.hasOwn(shapes, t);

/** The first missing or invalid field of a record; null: none. Precondition: {@link isKnownKind}. */
export function wrongField(record: JsonObject): string | null {
  const shape = shapes[record.t as keyof typeof shapes];
  return Object.keys(shape).find((field) => shape[field]?.(record[field]) !== true) ?? null;
}

const LINE_END = 0x0a;
/** Non-blocking, so that opening a FIFO does not wait. */
const READ = constants.O_RDONLY | constants.O_NONBLOCK;

/** Lines that were sealed together, or the unsealed rest. */
export interface Block {
  readonly lines: readonly string[];
  /** Line number of its first line, from 1. */
  readonly line: number;
  /** Hash of the previous block. */
  readonly previous: string;
}

export interface ReadBlocks {
  readonly blocks: readonly Block[];
  /** Null: the journal is not encrypted. */
  readonly encrypted: EncryptedLine | null;
  readonly end: JournalEnd;
  /** Bytes after the last complete line or block: its writer was killed while writing. */
  readonly tornBytes: number;
}

/**
 * Reads the blocks of a journal and verifies their hash chain. Needs no key.
 * @throws JournalError that names the file and the line
 */
export function readBlocks(file: string): ReadBlocks {
  return blocksIn(file, read(file));
}

/** As {@link readBlocks}, for content in memory; `file` names it in errors. */
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

/** Whether unsealed lines at the end count in this format. */
function countsUnsealed(first: Block | undefined): boolean {
  const header = parseJson(first?.lines[0] ?? '');
  return isJsonObject(header) && Number(header.format) >= UNSEALED_SINCE_FORMAT;
}

/** After a power failure the end may be garbage: lines from the first invalid one on do not count. */
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
