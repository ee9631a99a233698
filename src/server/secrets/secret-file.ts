import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';

/** The file is there, and is not kept like a secret. Says what to do, never what is in it. */
export class SecretFileError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'SecretFileError';
  }
}

/** Whose files may hold a secret of ours. */
export interface FileReader {
  readonly uid: number | null;
}

/** More is no secret but a mistake. */
export const MAX_SECRET_FILE_BYTES = 64 * 1024;
/** The group may read, which is how a container's platform hands out secrets; nobody but the owner may do more. */
const FORBIDDEN = 0o037;
const ROOT = 0;

/**
 * Reads a file that only its owner and its group may read. What is checked is what is read: the file is opened once, so that nobody
 * can change it in between.
 * @throws SecretFileError, or the system's own error where the file cannot be read
 */
export function readSecretFile(path: string, reader: FileReader = thisProcess()): string {
  // Without the flag a named pipe would stop the host until somebody writes to it.
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

/** Systems without numeric users have other ways to protect a file; there nothing is checked. */
function thisProcess(): FileReader {
  return { uid: process.geteuid?.() ?? null };
}
