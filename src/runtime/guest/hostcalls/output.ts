import { writeSync } from 'node:fs';
import { errorCode } from '../../../base/errors.ts';
import type { PostWindow } from '../../durable/guest/replay-log.ts';
import {
  ACK_BATCH,
  type DedicatedSpec,
  MAX_OUTPUT_CHUNK,
  POST_WINDOW,
  type StandardStream,
  windowSlots,
} from '../../port/guest-spec.ts';

/** Destination of a guest's output. */
export interface Output {
  /** False if the write failed. */
  write(stream: StandardStream, bytes: Uint8Array): boolean;
  /** Resolves when the guest may write on; null: it may now. Missing if `write` itself waits. */
  readonly room?: () => Promise<void> | null;
}

export type PostOutput = (stream: StandardStream, chunk: Uint8Array<ArrayBuffer>) => void;

const RETRY_MS = 1;

/**
 * Writes synchronously on the guest thread, so that output is complete before the guest can be ended. A full pipe returns
 * EAGAIN or takes part of a write, so the write is retried until it is complete; terminating the thread ends the retries.
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
          this.#closed.add(stream); // no reader: further output is dropped
        else return false; // a full disk, for example
      }
    }
    return true;
  }
}

/**
 * Posts output to the host thread, in order and before the report of the guest's end; posted output is delivered even if
 * the thread is terminated afterwards. Blocks the thread while the host has not acknowledged a full window.
 */
export class PostedOutput implements Output {
  readonly #windows: Readonly<Record<StandardStream, BlockingWindow>>;
  readonly #post: PostOutput;

  constructor(counters: SharedArrayBuffer, post: PostOutput) {
    this.#windows = { stdout: new BlockingWindow(counters, 'stdout'), stderr: new BlockingWindow(counters, 'stderr') };
    this.#post = post;
  }

  write(stream: StandardStream, bytes: Uint8Array): boolean {
    for (let at = 0; at < bytes.byteLength; at += MAX_OUTPUT_CHUNK) {
      const chunk = new Uint8Array(bytes.subarray(at, at + MAX_OUTPUT_CHUNK)); // a copy: this is a view of guest memory
      this.#windows[stream].waitFor(chunk.byteLength);
      this.#windows[stream].add(chunk.byteLength);
      this.#post(stream, chunk);
    }
    return true;
  }
}

/** Output of a guest with a dedicated thread: each stream to its descriptor, or posted. */
export function openOutput(
  { output: fds, unacknowledged }: Pick<DedicatedSpec, 'output' | 'unacknowledged'>,
  post: PostOutput,
): Output {
  const written = new FdOutput({ stdout: fds.stdout ?? 1, stderr: fds.stderr ?? 2 });
  if (unacknowledged === null) return written;
  const posted = new PostedOutput(unacknowledged, post);
  return { write: (stream, bytes) => (fds[stream] === null ? posted : written).write(stream, bytes) };
}

/** Timeout of one wait, after which the counter is read again. */
const ROOM_WAIT_MS = 1_000;

/** Post window of a dedicated thread: a counter of unacknowledged data in shared memory, on which the thread blocks. */
export class BlockingWindow implements PostWindow {
  readonly #counts: Int32Array;
  readonly #at: number;

  constructor(shared: SharedArrayBuffer, what: keyof typeof windowSlots) {
    this.#counts = new Int32Array(shared);
    this.#at = windowSlots[what];
  }

  /** Blocks until the amount fits, or until less than one acknowledgement is outstanding. */
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
