import { createCipheriv, createDecipheriv, createHmac, hash, hkdfSync, randomBytes } from 'node:crypto';
import { isJsonObject } from '../../base/json.ts';
import { isReadFormat, JOURNAL_FORMAT } from './journal.ts';

/*
 * Lines that are sealed together are a block. The last line of a block ends with the block's hash, over the hash of the
 * block before and all of the block's own bytes up to it: a line that was changed, taken out or put in is found.
 */

export const NO_BLOCK = '0'.repeat(64);

const seal = /,"#":"([0-9a-f]{64})"\}$/;
const SEAL_CHARS = ',"#":""}'.length + 64;

/** Lines of JSON objects as a block, or as its end: `written` is what of it was written before. `hash` is for the next one. */
export function sealBlock(
  lines: readonly string[],
  previous: string,
  written = '',
): { readonly text: string; readonly hash: string } {
  const open = lines.join('\n').slice(0, -1);
  const sealed = hash('sha256', previous + written + open);
  return { text: `${open},"#":"${sealed}"}\n`, hash: sealed };
}

/** The hash that a line says its block has; null: the block goes on. */
export const sealOf = (line: string): string | null => seal.exec(line)?.[1] ?? null;

/** Whether the lines, the last of them sealed, are the block that was written after `previous`. */
export function isWhole(lines: readonly string[], previous: string): boolean {
  return hash('sha256', previous + lines.join('\n').slice(0, -SEAL_CHARS)) === sealOf(lines.at(-1) ?? '');
}

/*
 * An encrypted journal begins with a line that says so, in the clear. Each block after it is one line, its records
 * encrypted together; the hashes of the chain go over these lines, so that it can be checked without the key. A block is
 * bound to its place: the hash of the block before it is authenticated with it.
 */

/** What a journal is encrypted with. */
export interface JournalKey {
  /** Names the key without giving it away. */
  readonly id: string;
  readonly bytes: Uint8Array;
}

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const SALT_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const ID_CHARS = 16;

/** The key of a text. */
export function journalKey(text: string): JournalKey {
  const bytes = new TextEncoder().encode(text);
  const id = createHmac('sha256', bytes).update('the id of a key of a spear journal').digest('hex').slice(0, ID_CHARS);
  return Object.freeze({ id, bytes });
}

/** The first line of an encrypted journal. */
export interface EncryptedLine {
  readonly key: string;
  readonly salt: string;
}

/** Null: the journal is not encrypted. @throws Error where it is in a way that is not known */
export function encryptedLine(value: unknown): EncryptedLine | null {
  if (!isJsonObject(value) || value.t !== 'encrypted') return null;
  const { format, cipher, key, salt } = value;
  if (!isReadFormat(format) || cipher !== CIPHER || typeof key !== 'string' || typeof salt !== 'string') {
    const found = JSON.stringify([format, cipher]);
    throw new Error(`unknown encryption ${found}; this Spear reads ${JSON.stringify([JOURNAL_FORMAT, CIPHER])}`);
  }
  return { key, salt };
}

/** Encrypts and opens the blocks of one journal. */
export class BlockCipher {
  readonly #key: Buffer;
  /** In the clear, before all others. */
  readonly firstLine: string;

  /** A new journal, unless the salt of an old one is given. */
  constructor({ id, bytes }: JournalKey, salt = randomBytes(SALT_BYTES).toString('hex')) {
    this.firstLine = JSON.stringify({ t: 'encrypted', format: JOURNAL_FORMAT, cipher: CIPHER, key: id, salt });
    this.#key = Buffer.from(hkdfSync('sha256', bytes, Buffer.from(salt, 'hex'), 'spear journal', KEY_BYTES));
  }

  /** The lines of a block, joined, as one. Nonces are random: a block that a crash cut off is written anew, with other content. */
  seal(lines: string, previous: string): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#key, nonce).setAAD(Buffer.from(previous));
    const parts = [nonce, cipher.update(lines, 'utf8'), cipher.final(), cipher.getAuthTag()];
    return JSON.stringify({ t: 'block', b: Buffer.concat(parts).toString('base64') });
  }

  /** The lines that were sealed; null: nobody with this key has written that, or not at this place. */
  open(value: unknown, previous: string): string[] | null {
    if (!isJsonObject(value) || value.t !== 'block' || typeof value.b !== 'string') return null;
    const bytes = Buffer.from(value.b, 'base64');
    if (bytes.byteLength < NONCE_BYTES + TAG_BYTES) return null;
    const decipher = createDecipheriv(CIPHER, this.#key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
      .setAAD(Buffer.from(previous))
      .setAuthTag(bytes.subarray(-TAG_BYTES));
    try {
      const text = decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
      return text.split('\n');
    } catch {
      return null;
    }
  }
}
