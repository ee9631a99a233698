import type { PostWindow } from '../durable/guest/replay-log.ts';
import { MAX_BUFFERED_POSTS, MAX_OUTPUT_CHUNK, POST_WINDOW, type StandardStream } from '../port/guest-spec.ts';
import type { Output, PostOutput } from './hostcalls/output.ts';
import { trapGuest } from './trap.ts';

/*
 * Back pressure of one guest on a shared thread. The thread must not wait, so the guest waits instead, at its next write
 * or yield point (`room`), until the host has acknowledged enough.
 */

/** Lets the guest wait for room. */
class Gate {
  #open: { readonly promise: Promise<void>; readonly resolve: () => void } | null = null;

  wait(): Promise<void> {
    this.#open ??= Promise.withResolvers<void>();
    return this.#open.promise;
  }

  open(): void {
    this.#open?.resolve();
    this.#open = null;
  }
}

interface StreamBuffer {
  /** Posted bytes that the host has not acknowledged. */
  unacknowledged: number;
  readonly chunks: Uint8Array<ArrayBuffer>[];
}

/** Output of the guest: posted within the window of each stream, buffered beyond it. */
export class BufferedOutput implements Output {
  readonly #post: PostOutput;
  readonly #gate = new Gate();
  /** Created on first write: most waiting guests have written nothing. */
  readonly #streams: Record<StandardStream, StreamBuffer | null> = { stdout: null, stderr: null };
  #bufferedBytes = 0;

  constructor(post: PostOutput) {
    this.#post = post;
  }

  write(stream: StandardStream, bytes: Uint8Array): boolean {
    if (this.#bufferedBytes + bytes.byteLength > MAX_BUFFERED_POSTS)
      trapGuest('the guest writes output without yielding, faster than the output is read');
    const buffer = this.#buffer(stream);
    for (let at = 0; at < bytes.byteLength; at += MAX_OUTPUT_CHUNK) {
      const chunk = new Uint8Array(bytes.subarray(at, at + MAX_OUTPUT_CHUNK)); // a copy: this is a view of guest memory
      const fits = buffer.unacknowledged + chunk.byteLength <= POST_WINDOW;
      if (buffer.chunks.length === 0 && fits) this.#send(stream, buffer, chunk);
      else {
        buffer.chunks.push(chunk);
        this.#bufferedBytes += chunk.byteLength;
      }
    }
    return true;
  }

  room(): Promise<void> | null {
    return this.#bufferedBytes === 0 ? null : this.#gate.wait();
  }

  acknowledged(stream: StandardStream, bytes: number): void {
    const buffer = this.#buffer(stream);
    buffer.unacknowledged -= bytes;
    for (let next = buffer.chunks[0]; next; next = buffer.chunks[0]) {
      if (buffer.unacknowledged + next.byteLength > POST_WINDOW) break;
      this.#sendFirst(stream, buffer);
    }
    if (this.#bufferedBytes === 0) this.#gate.open();
  }

  /** The guest has ended: posts the rest, whatever the window. */
  flush(): void {
    for (const stream of ['stdout', 'stderr'] as const) {
      const buffer = this.#streams[stream];
      while (buffer !== null && buffer.chunks.length > 0) this.#sendFirst(stream, buffer);
    }
    this.#gate.open();
  }

  #buffer(stream: StandardStream): StreamBuffer {
    this.#streams[stream] ??= { unacknowledged: 0, chunks: [] };
    return this.#streams[stream];
  }

  #sendFirst(stream: StandardStream, buffer: StreamBuffer): void {
    const chunk = buffer.chunks.shift();
    if (chunk === undefined) return;
    this.#bufferedBytes -= chunk.byteLength;
    this.#send(stream, buffer, chunk);
  }

  #send(stream: StandardStream, buffer: StreamBuffer, chunk: Uint8Array<ArrayBuffer>): void {
    buffer.unacknowledged += chunk.byteLength;
    this.#post(stream, chunk);
  }
}

/** Journal events of the guest: always posted, and counted until the host acknowledges them. */
export class ReplayLogWindow implements PostWindow {
  readonly #gate = new Gate();
  #unacknowledged = 0;

  waitFor(chars: number): void {
    if (this.#unacknowledged === 0 || this.#unacknowledged + chars <= POST_WINDOW + MAX_BUFFERED_POSTS) return;
    trapGuest('the guest reads clocks and random values without yielding, faster than its journal is written');
  }

  add(chars: number): void {
    this.#unacknowledged += chars;
  }

  room(): Promise<void> | null {
    return this.#unacknowledged <= POST_WINDOW ? null : this.#gate.wait();
  }

  acknowledged(chars: number): void {
    this.#unacknowledged -= chars;
    if (this.#unacknowledged <= POST_WINDOW) this.#gate.open();
  }

  /** The guest has ended. */
  close(): void {
    this.#gate.open();
  }
}
