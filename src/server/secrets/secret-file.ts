import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { mayReferToFile, mayReferToVariable, type ReferenceLookup, type ReferencePolicy } from './references.ts';

/** A file that exists but must not hold a secret. The message says how to fix that, and never holds the content. */
export class SecretFileError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'SecretFileError';
  }
}

/** The user that reads a secret; null: the system has no numeric users. */
interface FileReader {
  readonly uid: number | null;
}

export const MAX_SECRET_FILE_BYTES = 64 * 1024;
/** Group read is allowed, because container platforms mount secrets that way; anything else is for the owner only. */
const FORBIDDEN = 0o037;
const ROOT = 0;

/**
 * Reads a file that only its owner and its group may read. The file is opened once, so the checked file is the one read.
 * @throws SecretFileError, or the system's error if the file cannot be read
 */
export function readSecretFile(path: string, reader: FileReader = thisProcess()): string {
  // Without the flag, opening a named pipe would block until another process writes to it.
  const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const stat = fstatSync(file);
    if (!stat.isFile()) throw new SecretFileError(`${path} is not a regular file`);
    if (stat.size > MAX_SECRET_FILE_BYTES) {
      throw new SecretFileError(`${path} has ${stat.size} bytes; the limit for a secret is ${MAX_SECRET_FILE_BYTES}`);
    }
    if (reader.uid !== null) {
      if ((stat.mode & FORBIDDEN) !== 0) {
        const mode = (stat.mode & 0o777).toString(8).padStart(3, '0');
        throw new SecretFileError(`${path} is accessible to other users (mode ${mode}); run: chmod 600 ${path}`);
      }
      if (stat.uid !== reader.uid && stat.uid !== ROOT) {
        throw new SecretFileError(
          `${path} belongs to another user (uid ${stat.uid}), who could change it; run: chown ${reader.uid} ${path}`,
        );
      }
    }
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}

/** On systems without numeric users nothing is checked. */
function thisProcess(): FileReader {
  return { uid: process.geteuid?.() ?? null };
}

/** `unsafe`: why an existing file is not used, and how to fix that. */
type SecretFile = { readonly text: string } | { readonly unsafe: string } | 'missing' | 'refused';

/** Variables and files that records may refer to on this node. */
export interface SecretSource {
  readonly variables: ReferenceLookup;
  readFile(path: string): Promise<SecretFile>;
}

/** `environment` is the environment of the host, which only `src/config/` reads. */
export function createSecretSource(
  policy: ReferencePolicy,
  environment: Readonly<Record<string, string | undefined>>,
): SecretSource {
  return {
    variables: {
      allows: (name) => mayReferToVariable(name, policy),
      // hasOwn: "constructor" is no variable.
      get: (name) => (Object.hasOwn(environment, name) ? environment[name] : undefined),
    },
    async readFile(path) {
      if (!mayReferToFile(path, policy)) return 'refused';
      try {
        // A symbolic link must not lead to a file that the policy denies.
        const real = await process.getBuiltinModule('node:fs/promises').realpath(path);
        return mayReferToFile(real, policy) ? { text: readSecretFile(real) } : 'refused';
      } catch (error) {
        return error instanceof SecretFileError ? { unsafe: error.message } : 'missing';
      }
    },
  };
}
