import { writeSync } from 'node:fs';
import { errorCode } from '../base/error-text.ts';
import type { StandardStream } from '../protocol/guest-spec.ts';

/** Where a guest's bytes go. */
export interface Output {
  /** False if they could not be written. */
  write(stream: StandardStream, bytes: Uint8Array): boolean;
}

const RETRY_MS = 1;

/**
 * Writes at once, on the guest's thread: whatever a guest has written is out before it can be ended. A full pipe answers
 * EAGAIN and takes part of a write, so it is tried again until everything is taken; ending the thread ends the wait.
 */
export class FdOutput implements Output {
  readonly #fds: Readonly<Record<StandardStream, number>>;
  readonly #pause = new Int32Array(new SharedArrayBuffer(4));
  readonly #closed = new Set<StandardStream>();

  constructor(fds: Readonly<Record<StandardStream, number>>) {
    this.#fds = fds;
  }

  write(stream: StandardStream, bytes: Uint8Array): boolean {
    let written = 0;
    while (written < bytes.byteLength && !this.#closed.has(stream)) {
      try {
        written += writeSync(this.#fds[stream], bytes, written);
      } catch (error) {
        const code = errorCode(error);
        if (code === 'EAGAIN') Atomics.wait(this.#pause, 0, 0, RETRY_MS);
        else if (code === 'EPIPE')
          this.#closed.add(stream); // the reader went away: the guest goes on, its output does not
        else return false; // a full disk, say: the guest is told as any program is
      }
    }
    return true;
  }
}
