import { createHash, hash, randomBytes } from 'node:crypto';

/** Identifies a token to users and secret scanners. */
export const TOKEN_PREFIX = 'spr_';
const TOKEN_BYTES = 32;
const CHECKSUM_CHARS = 8;
/** The only rule for tokens that an operator wrote into a file. */
export const MIN_TOKEN_CHARS = 16;
const issued = /^(spr_[0-9a-f]{64})([0-9a-f]{8})?$/;

/**
 * `checked`: with a correct checksum. `plain`: without a checksum (of an older version, or written by an operator).
 * `malformed`: not issued by any registry.
 */
type TokenForm = 'checked' | 'plain' | 'malformed';

export function newTokenText(): string {
  const text = TOKEN_PREFIX + randomBytes(TOKEN_BYTES).toString('hex');
  return text + checksumOf(text);
}

/** Detects typing errors and random text without a lookup. A correct checksum proves nothing. */
export function tokenForm(text: string): TokenForm {
  if (!text.startsWith(TOKEN_PREFIX)) return text.length < MIN_TOKEN_CHARS ? 'malformed' : 'plain';
  const [, body, checksum] = issued.exec(text) ?? [];
  if (body === undefined) return 'malformed';
  if (checksum === undefined) return 'plain';
  return checksum === checksumOf(body) ? 'checked' : 'malformed';
}

/** Tokens are random, so no slower hash is needed. */
export function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

const checksumOf = (text: string) => hash('sha256', text).slice(0, CHECKSUM_CHARS);
