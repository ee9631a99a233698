import { createHash, randomBytes } from 'node:crypto';

/** People and scanners of leaked secrets know a token by it; a dash at the beginning would read as a flag. */
export const TOKEN_PREFIX = 'spr_';
const TOKEN_BYTES = 32;

export function newTokenText(): string {
  return TOKEN_PREFIX + randomBytes(TOKEN_BYTES).toString('hex');
}

/** A token is as random as its digest, so nothing slower than this is needed. */
export function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
