import { readFileSync, statSync } from 'node:fs';
import { errorCode } from '../../base/errors.ts';
import { ModuleError } from '../abi/guest-module.ts';

/**
 * Synchronous inside: loading node:fs/promises takes longer than reading most modules. A failure is told when the bytes
 * are needed, so whoever asks for them early need not wait for them.
 */
export function readModule(file: string): Promise<Uint8Array> {
  const bytes = read(file);
  bytes.catch(() => {});
  return bytes;
}

async function read(file: string): Promise<Uint8Array> {
  try {
    return readFileSync(file);
  } catch (error) {
    const code = errorCode(error);
    const isFolder = code === 'EISDIR' || statSync(file, { throwIfNoEntry: false })?.isDirectory();
    throw new ModuleError(
      isFolder ? 'is a directory' : code === 'ENOENT' ? 'no such file' : `cannot read the file (${code})`,
    );
  }
}
