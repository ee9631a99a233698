import { readFileSync } from 'node:fs';
import { errorCode } from '../../base/error-text.ts';
import { readSecretFile, SecretFileError } from '../secrets/secret-file.ts';
import type { TlsMaterial } from './bind.ts';

export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

/** What the options for the two files are called. */
export const tlsFlags: TlsFiles = Object.freeze({ cert: '--tls-cert', key: '--tls-key' });

/** A certificate and its key. @throws Error that names the option and the file */
export function readTls(files: TlsFiles, words: TlsFiles = tlsFlags): TlsMaterial {
  return {
    cert: readTlsFile(words.cert, files.cert, (path) => readFileSync(path, 'utf8')),
    key: readTlsFile(words.key, files.key, readSecretFile),
  };
}

function readTlsFile(from: string, path: string, read: (path: string) => string): string {
  try {
    return read(path);
  } catch (error) {
    if (error instanceof SecretFileError) throw new Error(`${from}: ${error.message}`);
    throw new Error(`${from}: ${path} cannot be read (${errorCode(error) ?? error})`);
  }
}
