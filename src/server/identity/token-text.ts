import { createHash, hash, randomBytes } from 'node:crypto';

/** People and scanners of leaked secrets know a token by it; a dash at the beginning would read as a flag. */
export const TOKEN_PREFIX = 'spr_';
const TOKEN_BYTES = 32;
const CHECKSUM_CHARS = 8;
/** Tokens that an operator wrote into a file have no other rule. */
export const MIN_TOKEN_CHARS = 16;
const issued = /^(spr_[0-9a-f]{64})([0-9a-f]{8})?$/;

/**
 * `checked`: the checksum at the end is right. `plain`: without a checksum, from before tokens had one or from a file
 * that an operator wrote. `malformed`: no registry has issued such a token.
 */
export type TokenForm = 'checked' | 'plain' | 'malformed';

export function newTokenText(): string {
  const text = TOKEN_PREFIX + randomBytes(TOKEN_BYTES).toString('hex');
  return text + checksumOf(text);
}

/** Costs no lookup. The checksum finds typing errors and random texts; it proves nothing. */
export function tokenForm(text: string): TokenForm {
  if (!text.startsWith(TOKEN_PREFIX)) return text.length < MIN_TOKEN_CHARS ? 'malformed' : 'plain';
  const [, body, checksum] = issued.exec(text) ?? [];
  if (body === undefined) return 'malformed';
  if (checksum === undefined) return 'plain';
  return checksum === checksumOf(body) ? 'checked' : 'malformed';
}

/** A token is as random as its digest, so nothing slower than this is needed. */
export function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

const checksumOf = (text: string) => hash('sha256', text).slice(0, CHECKSUM_CHARS);
