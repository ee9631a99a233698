import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { errorCode } from '../base/error-text.ts';
import { knownSecrets } from '../secrets/redactor.ts';
import { readSecretFile, SecretFileError } from '../secrets/secret-file.ts';
import type { Role, Tokens } from './access.ts';
import { writePrivateFile } from './private-file.ts';

const TOKEN_BYTES = 32;
const MIN_TOKEN_CHARS = 16;

export type TokenPaths = Readonly<Record<Role, string>>;

/** Reads the tokens, and makes those that are not there yet. `created` names the files that were made. */
export function ensureTokens(paths: TokenPaths): { tokens: Tokens; created: readonly string[] } {
  const created: string[] = [];
  const tokens = { admin: ensureToken(paths.admin, created), node: ensureToken(paths.node, created) };
  if (tokens.admin === tokens.node) {
    throw new Error(`${paths.admin} and ${paths.node} hold the same token; delete one to get a new one`);
  }
  return { tokens, created };
}

function ensureToken(path: string, created: string[]): string {
  if (!existsSync(path)) {
    try {
      // Not base64url: a token that begins with a dash would be taken for a flag when somebody pastes it after one.
      writePrivateFile(path, `${randomBytes(TOKEN_BYTES).toString('hex')}\n`);
    } catch (error) {
      throw new Error(`the token file ${path} cannot be made (${errorCode(error) ?? error})`);
    }
    created.push(path);
  }
  return readToken(path);
}

function readToken(path: string): string {
  const token = readPrivately(path).trim();
  if (token.length >= MIN_TOKEN_CHARS && /^[\x21-\x7e]+$/.test(token)) {
    knownSecrets.add(token);
    return token;
  }
  const wanted = `a token of at least ${MIN_TOKEN_CHARS} printable characters`;
  throw new Error(`the token file ${path} does not hold ${wanted}; delete it to get a new one`);
}

function readPrivately(path: string): string {
  try {
    return readSecretFile(path);
  } catch (error) {
    if (error instanceof SecretFileError) throw new Error(`the token file ${error.message}`);
    throw new Error(`the token file ${path} cannot be read (${errorCode(error) ?? error})`);
  }
}
