import { randomBytes } from 'node:crypto';
import { closeSync, fstatSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { errorCode } from '../base/error-text.ts';
import { knownSecrets } from '../secrets/redactor.ts';
import type { Role, Tokens } from './access.ts';

const TOKEN_BYTES = 32;
const MIN_TOKEN_CHARS = 16;
const PRIVATE_FILE = 0o600;
const PRIVATE_DIRECTORY = 0o700;
const OTHERS = 0o077;

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
  mkdirSync(dirname(path), { recursive: true, mode: PRIVATE_DIRECTORY });
  try {
    const file = openSync(path, 'wx', PRIVATE_FILE);
    try {
      // Not base64url: a token that begins with a dash would be taken for a flag when somebody pastes it after one.
      writeSync(file, `${randomBytes(TOKEN_BYTES).toString('hex')}\n`);
    } finally {
      closeSync(file);
    }
    created.push(path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw new Error(`the token file ${path} cannot be made (${codeOf(error)})`);
  }
  return readToken(path);
}

function readToken(path: string): string {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch (error) {
    throw new Error(`the token file ${path} cannot be read (${codeOf(error)})`);
  }
  try {
    const { mode } = fstatSync(file);
    if (process.platform !== 'win32' && (mode & OTHERS) !== 0) {
      throw new Error(`the token file ${path} is open to other users; run: chmod 600 ${path}`);
    }
    const token = readFileSync(file, 'utf8').trim();
    if (token.length >= MIN_TOKEN_CHARS && /^[\x21-\x7e]+$/.test(token)) {
      knownSecrets.add(token);
      return token;
    }
    throw new Error(`the token file ${path} holds no token of at least ${MIN_TOKEN_CHARS} printable characters`);
  } finally {
    closeSync(file);
  }
}

function codeOf(error: unknown): string {
  return errorCode(error) ?? String(error);
}
