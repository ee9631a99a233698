import { createCipheriv, createDecipheriv, createHmac, hash, hkdfSync, randomBytes } from 'node:crypto';
import { isJsonObject } from '../../base/json.ts';
import { isReadFormat, JOURNAL_FORMAT } from './journal.ts';

/*
 * Blocks of a journal: lines that are sealed together. The last line of a block ends with the hash of the previous block's
 * hash and of the block's own bytes, so a changed, removed or inserted line is detected.
 */

export const NO_BLOCK = '0'.repeat(64);

const seal = /,"#":"([0-9a-f]{64})"\}$/;
const SEAL_CHARS = ',"#":""}'.length + 64;

/** Seals lines of JSON objects as a block. `written`: lines of the block that are in the file already. */
export function sealBlock(
  lines: readonly string[],
  previous: string,
  written = '',
): { readonly text: string; readonly hash: string } {
  const open = lines.join('\n').slice(0, -1);
  const sealed = hash('sha256', previous + written + open);
  return { text: `${open},"#":"${sealed}"}\n`, hash: sealed };
}

/** The block hash at the end of a line; null: the block continues. */
export const sealOf = (line: string): string | null => seal.exec(line)?.[1] ?? null;

/** Whether the lines, the last of them sealed, are an intact block after the block with hash `previous`. */
export function isWhole(lines: readonly string[], previous: string): boolean {
  return hash('sha256', previous + lines.join('\n').slice(0, -SEAL_CHARS)) === sealOf(lines.at(-1) ?? '');
}

/*
 * An encrypted journal begins with an unencrypted line that declares the encryption. Each block after it is one line with
 * its records encrypted together. The hash chain covers the encrypted lines, so it can be verified without the key. The
 * hash of the previous block is authenticated with each block, which binds the block to its position.
 */

/** Key of encrypted journals. */
export interface JournalKey {
  /** Identifies the key without revealing it. */
  readonly id: string;
  readonly bytes: Uint8Array;
}

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const SALT_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const ID_CHARS = 16;

/** Derives a key from configured text. */
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

/** Null: the journal is not encrypted. @throws Error if the encryption is unknown */
export function encryptedLine(value: unknown): EncryptedLine | null {
  if (!isJsonObject(value) || value.t !== 'encrypted') return null;
  const { format, cipher, key, salt } = value;
  if (!isReadFormat(format) || cipher !== CIPHER || typeof key !== 'string' || typeof salt !== 'string') {
    const found = JSON.stringify([format, cipher]);
    throw new Error(`unknown encryption ${found}; this Spear reads ${JSON.stringify([JOURNAL_FORMAT, CIPHER])}`);
  }
  return { key, salt };
}

/** Encrypts and decrypts the blocks of one journal. */
export class BlockCipher {
  readonly #key: Buffer;
  /** The unencrypted first line. */
  readonly firstLine: string;

  /** `salt`: of an existing journal. @default a new one */
  constructor({ id, bytes }: JournalKey, salt = randomBytes(SALT_BYTES).toString('hex')) {
    this.firstLine = JSON.stringify({ t: 'encrypted', format: JOURNAL_FORMAT, cipher: CIPHER, key: id, salt });
    this.#key = Buffer.from(hkdfSync('sha256', bytes, Buffer.from(salt, 'hex'), 'spear journal', KEY_BYTES));
  }

  /** Encrypts the joined lines of a block into one line. Nonces are random, because a block cut off by a crash is written again with other content. */
  seal(lines: string, previous: string): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#key, nonce).setAAD(Buffer.from(previous));
    const parts = [nonce, cipher.update(lines, 'utf8'), cipher.final(), cipher.getAuthTag()];
    return JSON.stringify({ t: 'block', b: Buffer.concat(parts).toString('base64') });
  }

  /** Decrypts a block; null: not written with this key, or not at this position. */
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
