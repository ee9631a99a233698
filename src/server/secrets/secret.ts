import { inspect } from 'node:util';
import { errorCode } from '../../base/errors.ts';
import { knownSecrets } from './redactor.ts';
import { SecretFileError } from './secret-file.ts';

const HIDDEN = '[secret]';
const REFERENCE = /^(?:env:(?<name>[A-Za-z_][A-Za-z0-9_]*)|file:(?<path>.+))$/s;

export const SECRET_REFERENCE_HELP = 'must be a reference, env:NAME or file:PATH, never the secret itself';

/** A secret value. Only {@link Secret.reveal} returns it; the redactor removes it from all output. */
export class Secret {
  readonly #value: string;

  /** `known`: the parts to redact. @default the whole value */
  constructor(value: string, known: readonly string[] = [value]) {
    this.#value = value;
    for (const part of known) knownSecrets.add(part);
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return HIDDEN;
  }

  toJSON(): string {
    return HIDDEN;
  }

  [inspect.custom](): string {
    return HIDDEN;
  }
}

/** A reference that cannot be resolved. The message never holds the value. */
export class SecretError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'SecretError';
  }
}

export interface SecretSources {
  env: NodeJS.ProcessEnv;
  readFile(path: string): string;
}

export function isSecretReference(text: string): boolean {
  return REFERENCE.test(text);
}

/** Reads the target of `env:NAME` or `file:PATH`. A trailing newline is not part of the secret. */
export function resolveSecret(reference: string, read: SecretSources): Secret {
  const { name, path } = REFERENCE.exec(reference)?.groups ?? {};
  if (name !== undefined) {
    const value = Object.hasOwn(read.env, name) ? read.env[name] : undefined;
    if (value === undefined) throw new SecretError(`${reference}: the environment variable is not set`);
    return nonEmpty(value, reference, 'the environment variable is empty');
  }
  if (path !== undefined) return nonEmpty(readSecretFile(path, reference, read), reference, 'the file is empty');
  // The text may be the secret itself, so the message does not quote it.
  throw new SecretError(`a secret ${SECRET_REFERENCE_HELP}`);
}

function readSecretFile(path: string, reference: string, read: SecretSources): string {
  try {
    return read.readFile(path);
  } catch (error) {
    if (error instanceof SecretFileError) throw new SecretError(`${reference}: ${error.message}`);
    const code = errorCode(error) ?? 'unknown error';
    throw new SecretError(`${reference}: the file cannot be read (${code})`);
  }
}

function nonEmpty(value: string, reference: string, complaint: string): Secret {
  const trimmed = value.replace(/[\r\n]+$/, '');
  if (trimmed.trim() === '') throw new SecretError(`${reference}: ${complaint}`);
  return new Secret(trimmed);
}
