import { resolve } from 'node:path';
import { resolveSecret, type Secret, SecretError, type SecretSources } from '../server/secrets/secret.ts';
import { ConfigError } from './config-error.ts';
import type { ConfigFile } from './config-file.ts';

/** Minimum length of an audit or journal key: a shorter key can be found by trying. */
export const MIN_KEY_CHARS = 16;

/** Path and folder of a config file; undefined: the configuration has no file. */
export type ConfigOrigin = Pick<ConfigFile, 'path' | 'folder'> | undefined;

/** Sources for secret references in a config file: `file:` references are relative to its folder. */
export function secretSourcesOf(file: ConfigOrigin, { env, readFile }: SecretSources): SecretSources {
  return { env, readFile: (path) => readFile(resolve(file?.folder ?? '.', path)) };
}

/** Reads a secret by reference. @throws ConfigError that begins with `where` */
export function readSecret(reference: string, where: string, sources: SecretSources): Secret {
  try {
    return resolveSecret(reference, sources);
  } catch (error) {
    if (!(error instanceof SecretError)) throw error;
    throw new ConfigError(`${where}: ${error.message}`);
  }
}

/** Reads the key of an audit log or of journals. @throws ConfigError that begins with `where` */
export function readKey(reference: string, where: string, sources: SecretSources): Secret {
  const key = readSecret(reference, where, sources);
  if (key.reveal().length >= MIN_KEY_CHARS) return key;
  throw new ConfigError(`${where}: ${reference}: the key has fewer than ${MIN_KEY_CHARS} characters`);
}
