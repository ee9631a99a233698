import { readFileSync } from 'node:fs';
import { errorCode, errorText } from '../base/error-text.ts';
import type { SmsConfig } from '../config/sms/sms-config.ts';
import { readSecretFile, SecretFileError } from '../secrets/secret-file.ts';
import { type Access, openAccess, TokenAccess } from './access.ts';
import type { TlsMaterial } from './bind.ts';
import type { ServiceLog } from './service-log.ts';
import { ensureTokens, readTokens } from './token-files.ts';

/** The tokens and the certificate of a registry, as their files have them; `reload` reads the files again. */
export interface Credentials {
  readonly access: Access;
  readonly tls: TlsMaterial | null;
  /** What cannot be read stays as it was, and the log says so. Returns the certificate that is in force. */
  reload(): TlsMaterial | null;
}

export function openCredentials({ auth, files, tls: tlsPaths }: SmsConfig, log: ServiceLog): Credentials {
  const paths = { admin: files.adminToken, node: files.nodeToken };
  let tls = tlsPaths === null ? null : readTls(tlsPaths);
  let tokens: TokenAccess | null = null;
  if (auth) {
    const made = ensureTokens(paths);
    for (const file of made.created) log('info', 'token_created', { file });
    tokens = new TokenAccess(made.tokens);
  }
  const renew = (what: string, work: () => object) => {
    try {
      log('info', `${what}_reloaded`, { ...work() });
    } catch (error) {
      log('error', `${what}_not_reloaded`, { message: errorText(error), kept: true });
    }
  };
  return {
    access: tokens ?? openAccess,
    get tls() {
      return tls;
    },
    reload() {
      renew('tokens', () => {
        const now = tokens === null ? { admin: [], node: [] } : readTokens(paths);
        tokens?.replace(now);
        return { admin: now.admin.length, node: now.node.length };
      });
      if (tlsPaths !== null) {
        renew('certificate', () => {
          tls = readTls(tlsPaths);
          return { file: tlsPaths.cert };
        });
      }
      return tls;
    },
  };
}

function readTls(files: { readonly cert: string; readonly key: string }): TlsMaterial {
  return {
    cert: readTlsFile('--tls-cert', files.cert, (path) => readFileSync(path, 'utf8')),
    key: readTlsFile('--tls-key', files.key, readSecretFile),
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
