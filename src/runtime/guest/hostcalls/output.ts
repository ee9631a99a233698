import { writeSync } from 'node:fs';
import { errorCode } from '../../../base/error-text.ts';
import {
  ACK_BATCH,
  type DedicatedSpec,
  MAX_OUTPUT_CHUNK,
  POST_WINDOW,
  type StandardStream,
  windowSlots,
} from '../../port/guest-spec.ts';

/** Where a guest's bytes go. */
export interface Output {
  /** False if they could not be written. */
  write(stream: StandardStream, bytes: Uint8Array): boolean;
  /** Until the guest should write on; null: it may. Where it is missing, writing waits by itself. */
  readonly room?: () => Promise<void> | null;
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

/**
 * Posts to the host thread, in the order of writing and before the word of the guest's end. What was posted is delivered
 * even if the thread is ended then; and it waits while the host has too much of it, so that no guest fills its memory.
 */
export class PostedOutput implements Output {
  readonly #underway: Readonly<Record<StandardStream, BlockingWindow>>;
  readonly #post: (stream: StandardStream, chunk: Uint8Array<ArrayBuffer>) => void;

  constructor(underway: SharedArrayBuffer, post: (stream: StandardStream, chunk: Uint8Array<ArrayBuffer>) => void) {
    this.#underway = { stdout: new BlockingWindow(underway, 'stdout'), stderr: new BlockingWindow(underway, 'stderr') };
    this.#post = post;
  }

  write(stream: StandardStream, bytes: Uint8Array): boolean {
    for (let at = 0; at < bytes.byteLength; at += MAX_OUTPUT_CHUNK) {
      // A copy: the guest writes on into the memory that this is a view of.
      const chunk = new Uint8Array(bytes.subarray(at, at + MAX_OUTPUT_CHUNK));
      this.#underway[stream].waitFor(chunk.byteLength);
      this.#underway[stream].add(chunk.byteLength);
      this.#post(stream, chunk);
    }
    return true;
  }
}

/** Each stream its own way. */
export function openOutput(
  { output: fds, underway }: Pick<DedicatedSpec, 'output' | 'underway'>,
  post: (stream: StandardStream, chunk: Uint8Array<ArrayBuffer>) => void,
): Output {
  const written = new FdOutput({ stdout: fds.stdout ?? 1, stderr: fds.stderr ?? 2 });
  if (underway === null) return written;
  const posted = new PostedOutput(underway, post);
  return { write: (stream, bytes) => (fds[stream] === null ? posted : written).write(stream, bytes) };
}

/** How long one wait for the host lasts before it is asked again. */
const ROOM_WAIT_MS = 1_000;

/** What this thread has posted and the host has not taken: more than there is room for waits, so that nothing fills it. */
export class BlockingWindow {
  readonly #counts: Int32Array;
  readonly #at: number;

  constructor(shared: SharedArrayBuffer, what: keyof typeof windowSlots) {
    this.#counts = new Int32Array(shared);
    this.#at = windowSlots[what];
  }

  /** Waits until so much more has room, or all was taken that one is told of; ending the thread ends the wait. */
  waitFor(amount: number): void {
    for (let known = this.#load(); known >= ACK_BATCH && known + amount > POST_WINDOW; known = this.#load()) {
      Atomics.wait(this.#counts, this.#at, known, ROOM_WAIT_MS);
    }
  }

  add(amount: number): void {
    Atomics.add(this.#counts, this.#at, amount);
  }

  #load(): number {
    return Atomics.load(this.#counts, this.#at);
  }
}
