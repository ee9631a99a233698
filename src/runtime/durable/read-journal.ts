import { isJsonObject, type JsonObject, parseJson } from '../../base/json.ts';
import { abiVersion } from '../abi/calls.ts';
import { BlockCipher, type JournalKey } from './block-cipher.ts';
import { isReadFormat, JOURNAL_FORMAT, type JournalHeader, type TimedRecord } from './journal.ts';
import { JournalError, JournalHeaderMissing, JournalKeyMissing } from './journal-error.ts';
import type { JournalEnd } from './journal-place.ts';
import { type Block, blocksIn, type ReadBlocks, readBlocks } from './read-blocks.ts';
import { isKnownKind, wrongField } from './record-shape.ts';

export interface ReadJournal {
  readonly file: string;
  readonly header: JournalHeader;
  readonly records: readonly TimedRecord[];
  readonly end: JournalEnd;
  /** Bytes after its last whole line, or block: somebody was ended in the middle of writing. */
  readonly tornBytes: number;
  /** For the blocks that follow; null: it is not encrypted. */
  readonly cipher: BlockCipher | null;
}

/**
 * A journal, checked: its blocks are those that were written, in their order; half a line at its end is left out.
 * @throws JournalError that names the file and the line; JournalKeyMissing where it is encrypted and there is no key
 */
export function readJournal(
  file: string,
  key: JournalKey | null = null,
  /** What it has, where it is no file that is called so. */
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
  // What kind of journal it is, is said before what is wrong with it.
  const isOfAnother = value.t === 'header' && !isReadFormat(value.format);
  const wrong = isKnownKind(value) && !isOfAnother ? wrongField(value) : null;
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

/** Records of kinds that this version does not know are left out; their lines were checked all the same. */
const known = (records: readonly JsonObject[]) => records.filter(isKnownKind) as readonly unknown[] as TimedRecord[];
