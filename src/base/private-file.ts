import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

const PRIVATE_FILE = 0o600;
const PRIVATE_DIRECTORY = 0o700;

/** Writes a file that only its owner can read, atomically: to a temporary file that replaces `path`. */
export function writePrivateFile(path: string, text: string | Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true, mode: PRIVATE_DIRECTORY });
  const aside = `${path}.${process.pid}.partial`;
  rmSync(aside, { force: true });
  try {
    const file = openSync(aside, 'wx', PRIVATE_FILE);
    try {
      writeFileSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(aside, path);
  } finally {
    rmSync(aside, { force: true });
  }
}
