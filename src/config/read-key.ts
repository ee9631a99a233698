import { resolveSecret, type Secret, SecretError, type SecretSources } from '../server/secrets/secret.ts';
import { ConfigError } from './config-error.ts';

/** A shorter key can be found by trying. */
export const MIN_KEY_CHARS = 16;

/** The key of a trail or a journal, by reference. @throws ConfigError that begins with `where` */
export function readKey(reference: string, where: string, sources: SecretSources): Secret {
  try {
    const key = resolveSecret(reference, sources);
    if (key.reveal().length >= MIN_KEY_CHARS) return key;
    throw new SecretError(`${reference}: the key has fewer than ${MIN_KEY_CHARS} characters`);
  } catch (error) {
    if (!(error instanceof SecretError)) throw error;
    throw new ConfigError(`${where}: ${error.message}`);
  }
}
