import { errorCode } from '../../base/error-text.ts';
import { Secret } from '../../server/secrets/secret.ts';
import { readSecretFile, SecretFileError } from '../../server/secrets/secret-file.ts';
import { ConfigError } from '../config-error.ts';

/** Asked at every use: a token that is replaced in its file takes effect without a restart. Null: there is none. */
export type ReadToken = () => Secret | null;

export const noToken: ReadToken = () => null;

export function fixedToken(text: string): ReadToken {
  const secret = new Secret(text);
  return () => secret;
}

/** The token of a file that must be there now; later the last one that could be read stays in force. */
export function tokenOfFile(path: string, from: string): ReadToken {
  let last = readTokenFile(path, from);
  return () => {
    try {
      last = readTokenFile(path, from);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
    }
    return last;
  };
}

/** The token of a registry of this user; there may be none, or none yet. */
export function tokenOfOwnRegistry(path: string): ReadToken {
  let last: Secret | null = null;
  return () => {
    try {
      last = new Secret(firstLine(readSecretFile(path)));
    } catch (error) {
      if (error instanceof SecretFileError) throw new ConfigError(error.message);
    }
    return last;
  };
}

function readTokenFile(path: string, from: string): Secret {
  try {
    return new Secret(firstLine(readSecretFile(path)));
  } catch (error) {
    if (error instanceof SecretFileError) throw new ConfigError(`${from}: ${error.message}`);
    throw new ConfigError(`${from}: ${path} cannot be read (${errorCode(error) ?? String(error)})`);
  }
}

/** A registry takes every token of its file; the first one is the one to use. */
function firstLine(text: string): string {
  return text.trim().split('\n', 1)[0]?.trim() ?? '';
}
