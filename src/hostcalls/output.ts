import { writeSync } from 'node:fs';
import { errorCode } from '../base/error-text.ts';
import {
  type GuestSpec,
  MAX_OUTPUT_CHUNK,
  MAX_UNDERWAY,
  type StandardStream,
  underwayAt,
} from '../protocol/guest-spec.ts';

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

/** How long one wait for the host lasts before it is asked again. */
const ROOM_WAIT_MS = 1_000;

/**
 * Posts to the host thread, in the order of writing and before the word of the guest's end. What was posted is delivered
 * even if the thread is ended then; and it waits while the host has too much of it, so that no guest fills its memory.
 */
export class PostedOutput implements Output {
  readonly #underway: Int32Array;
  readonly #post: (stream: StandardStream, chunk: Uint8Array<ArrayBuffer>) => void;

  constructor(underway: SharedArrayBuffer, post: (stream: StandardStream, chunk: Uint8Array<ArrayBuffer>) => void) {
    this.#underway = new Int32Array(underway);
    this.#post = post;
  }

  write(stream: StandardStream, bytes: Uint8Array): boolean {
    for (let at = 0; at < bytes.byteLength; at += MAX_OUTPUT_CHUNK) {
      // A copy: the guest writes on into the memory that this is a view of.
      const chunk = new Uint8Array(bytes.subarray(at, at + MAX_OUTPUT_CHUNK));
      this.#takeRoom(underwayAt[stream], chunk.byteLength);
      this.#post(stream, chunk);
    }
    return true;
  }

  #takeRoom(at: number, bytes: number): void {
    for (let known = this.#load(at); known + bytes > MAX_UNDERWAY; known = this.#load(at)) {
      Atomics.wait(this.#underway, at, known, ROOM_WAIT_MS);
    }
    Atomics.add(this.#underway, at, bytes);
  }

  #load(at: number): number {
    return Atomics.load(this.#underway, at);
  }
}

/** Each stream its own way. */
export function openOutput(
  { output: fds, outputUnderway }: Pick<GuestSpec, 'output' | 'outputUnderway'>,
  post: (stream: StandardStream, chunk: Uint8Array<ArrayBuffer>) => void,
): Output {
  const written = new FdOutput({ stdout: fds.stdout ?? 1, stderr: fds.stderr ?? 2 });
  if (outputUnderway === null) return written;
  const posted = new PostedOutput(outputUnderway, post);
  return { write: (stream, bytes) => (fds[stream] === null ? posted : written).write(stream, bytes) };
}
