import { existsSync } from 'node:fs';
import { errorCode } from '../../base/error-text.ts';
import { writePrivateFile } from '../../base/private-file.ts';
import { knownSecrets } from '../secrets/redactor.ts';
import { readSecretFile, SecretFileError } from '../secrets/secret-file.ts';
import type { Tokens } from './file-tokens.ts';
import { MIN_TOKEN_CHARS, newTokenText } from './token-text.ts';

/** Of one role at a time: the current one, and those that are on their way out. */
const MAX_TOKENS = 16;

export type TokenPaths = Readonly<Record<keyof Tokens, string>>;

/** Reads the tokens, and makes those that are not there yet. `created` names the files that were made. */
export function ensureTokens(paths: TokenPaths): { tokens: Tokens; created: readonly string[] } {
  const created: string[] = [];
  for (const path of [paths.admin, paths.node]) ensureToken(path, created);
  return { tokens: readTokens(paths), created };
}

/** The tokens as the files have them now: one a line, all valid, the first one for those who look for one to use. */
export function readTokens(paths: TokenPaths): Tokens {
  const tokens = { admin: readTokenFile(paths.admin), node: readTokenFile(paths.node) };
  if (tokens.admin.some((token) => tokens.node.includes(token))) {
    throw new Error(
      `${paths.admin} and ${paths.node} hold the same token; delete one of the files to create a new token`,
    );
  }
  return tokens;
}

export function ensureToken(path: string, created: string[]): void {
  if (!existsSync(path)) {
    try {
      writePrivateFile(path, `${newTokenText()}\n`);
    } catch (error) {
      throw new Error(`the token file ${path} cannot be created (${errorCode(error) ?? error})`);
    }
    created.push(path);
  }
}

export function readTokenFile(path: string): readonly string[] {
  const lines = readPrivately(path).split('\n');
  const tokens = lines.map((line) => line.trim()).filter((line) => line !== '');
  const isToken = (text: string) => text.length >= MIN_TOKEN_CHARS && /^[\x21-\x7e]+$/.test(text);
  if (tokens.length === 0 || !tokens.every(isToken)) {
    const wanted = `a token of at least ${MIN_TOKEN_CHARS} printable characters on each line`;
    throw new Error(`the token file ${path} does not hold ${wanted}; delete the file to create a new token`);
  }
  if (tokens.length > MAX_TOKENS) {
    throw new Error(`the token file ${path} holds ${tokens.length} tokens; at most ${MAX_TOKENS} may be valid at once`);
  }
  for (const token of tokens) knownSecrets.add(token);
  return tokens;
}

function readPrivately(path: string): string {
  try {
    return readSecretFile(path);
  } catch (error) {
    if (error instanceof SecretFileError) throw new Error(`the token file ${error.message}`);
    throw new Error(`the token file ${path} cannot be read (${errorCode(error) ?? error})`);
  }
}
