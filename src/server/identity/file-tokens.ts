import { timingSafeEqual } from 'node:crypto';
import { existsSync } from 'node:fs';
import { errorCode } from '../../base/errors.ts';
import { writePrivateFile } from '../../base/private-file.ts';
import type { Identity } from '../records/permissions.ts';
import { ALL_NAMESPACES } from '../records/permissions.ts';
import { knownSecrets } from '../secrets/redactor.ts';
import { readSecretFile, SecretFileError } from '../secrets/secret-file.ts';
import type { DigestSource, Validity } from './access.ts';
import { digestOf, MIN_TOKEN_CHARS, newTokenText } from './token-text.ts';

/** The tokens of the bootstrap roles. All tokens of a role are valid at once, so they can be replaced one by one. */
export interface Tokens {
  readonly admin: readonly string[];
  readonly node: readonly string[];
}

interface TokenEntry {
  readonly digest: Buffer;
  readonly identity: Identity;
}

/** The tokens of the admin.token and node.token files. */
export class FileTokens implements DigestSource {
  readonly #validity: Validity;
  #entries: readonly TokenEntry[] = [];

  constructor(tokens: Tokens, validity: Validity) {
    this.#validity = validity;
    this.replace(tokens);
  }

  /** Compares all digests in constant time. */
  identify(token: string): Identity | null {
    return this.identifyDigest(digestOf(token));
  }

  identifyDigest(given: Buffer): Identity | null {
    return this.#entries.reduce<Identity | null>(
      (found, { digest, identity }) => (timingSafeEqual(given, digest) ? identity : found),
      null,
    );
  }

  /** Sets the valid tokens. Ends the identities of removed tokens. */
  replace(tokens: Tokens): void {
    const before = this.#entries;
    const entry = (token: string, role: 'admin' | 'node'): TokenEntry => {
      const digest = digestOf(token);
      const same = before.find((other) => other.identity.roles[0] === role && timingSafeEqual(other.digest, digest));
      return same ?? { digest, identity: bootstrapIdentity(role) };
    };
    this.#entries = [
      ...tokens.admin.map((token) => entry(token, 'admin')),
      ...tokens.node.map((token) => entry(token, 'node')),
    ];
    for (const gone of before) if (!this.#entries.includes(gone)) this.#validity.end(gone.identity);
  }
}

function bootstrapIdentity(role: 'admin' | 'node'): Identity {
  return {
    name: `bootstrap-${role}`,
    roles: [role],
    namespace: ALL_NAMESPACES,
    mayReadJournals: role === 'admin',
    expiresAtMs: null,
  };
}

/** Valid tokens of one role. */
const MAX_TOKENS = 16;

type TokenPaths = Readonly<Record<keyof Tokens, string>>;

/** Reads the token files and creates missing ones; `created` lists those. */
export function ensureTokens(paths: TokenPaths): { tokens: Tokens; created: readonly string[] } {
  const created: string[] = [];
  for (const path of [paths.admin, paths.node]) ensureToken(path, created);
  return { tokens: readTokens(paths), created };
}

/** Reads the token files: one token per line, all valid; clients use the first. */
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
