import { hash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writePrivateFile } from '../../base/private-file.ts';

const PRIVATE_DIRECTORY = 0o700;

/** Modules by their sha256. What is read is what was stored, or nothing. */
export class Blobs {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
    mkdirSync(directory, { recursive: true, mode: PRIVATE_DIRECTORY });
  }

  has(sha256: string): boolean {
    return existsSync(this.#path(sha256));
  }

  /** Returns the digest. */
  put(bytes: Uint8Array): string {
    const sha256 = hash('sha256', bytes);
    if (!this.has(sha256)) writePrivateFile(this.#path(sha256), bytes);
    return sha256;
  }

  /** @throws if it is not there, or is not what it was */
  read(sha256: string): Uint8Array {
    const bytes = readFileSync(this.#path(sha256));
    if (hash('sha256', bytes) === sha256) return bytes;
    throw new Error(`${this.#path(sha256)} is damaged: its sha256 is another; remove it and apply the task again`);
  }

  #path(sha256: string): string {
    if (!/^[0-9a-f]{64}$/.test(sha256)) throw new Error('expected a sha256 in hex');
    return join(this.#directory, `${sha256}.wasm`);
  }
}
