import type { PostWindow } from '../durable/guest/replay-log.ts';
import { MAX_BUFFERED_POSTS, MAX_OUTPUT_CHUNK, POST_WINDOW, type StandardStream } from '../port/guest-spec.ts';
import type { Output } from './hostcalls/output.ts';
import { trapGuest } from './trap.ts';

type Chunk = Uint8Array<ArrayBuffer>;

/** Who tells the host what was written. */
export interface OutputPoster {
  tellOutput(stream: StandardStream, chunk: Chunk): void;
}

interface Line {
  /** Bytes that the host has not taken. */
  underway: number;
  readonly waiting: Chunk[];
}

/**
 * Output of one guest of many: what the host has no room for is kept here, and the guest waits at the next place where it
 * can, for its thread must not.
 */
export class BufferedOutput implements Output {
  readonly #teller: OutputPoster;
  /** Made at the first write: most guests that wait have written nothing. */
  readonly #lines: Record<StandardStream, Line | null> = { stdout: null, stderr: null };
  #owed = 0;
  #paid: { readonly promise: Promise<void>; readonly resolve: () => void } | null = null;

  constructor(teller: OutputPoster) {
    this.#teller = teller;
  }

  write(stream: StandardStream, bytes: Uint8Array): boolean {
    if (this.#owed + bytes.byteLength > MAX_BUFFERED_POSTS)
      trapGuest('the guest writes output without yielding, faster than the output is read');
    for (let at = 0; at < bytes.byteLength; at += MAX_OUTPUT_CHUNK) {
      // A copy: the guest writes on into the memory that this is a view of.
      const chunk = new Uint8Array(bytes.subarray(at, at + MAX_OUTPUT_CHUNK));
      const line = this.#line(stream);
      if (line.waiting.length === 0 && line.underway + chunk.byteLength <= POST_WINDOW) this.#send(stream, chunk);
      else {
        line.waiting.push(chunk);
        this.#owed += chunk.byteLength;
      }
    }
    return true;
  }

  room(): Promise<void> | null {
    if (this.#owed === 0) return null;
    this.#paid ??= Promise.withResolvers<void>();
    return this.#paid.promise;
  }

  /** The host has taken so much. */
  taken(stream: StandardStream, bytes: number): void {
    const line = this.#line(stream);
    line.underway -= bytes;
    for (let next = line.waiting[0]; next; next = line.waiting[0]) {
      if (line.underway + next.byteLength > POST_WINDOW) break;
      this.#sendWaiting(stream, line);
    }
    if (this.#owed === 0) this.#resume();
  }

  /** The guest has ended: the host gets the rest, whether or not it has room. */
  flush(): void {
    for (const stream of ['stdout', 'stderr'] as const) {
      const line = this.#lines[stream];
      while (line !== null && line.waiting.length > 0) this.#sendWaiting(stream, line);
    }
    this.#resume();
  }

  #line(stream: StandardStream): Line {
    const known = this.#lines[stream] ?? { underway: 0, waiting: [] };
    this.#lines[stream] = known;
    return known;
  }

  #sendWaiting(stream: StandardStream, line: Line): void {
    const chunk = line.waiting.shift();
    if (chunk === undefined) return;
    this.#owed -= chunk.byteLength;
    this.#send(stream, chunk);
  }

  #send(stream: StandardStream, chunk: Chunk): void {
    this.#line(stream).underway += chunk.byteLength;
    this.#teller.tellOutput(stream, chunk);
  }

  #resume(): void {
    this.#paid?.resolve();
    this.#paid = null;
  }
}

/**
 * What of the replayLog of one guest of many the host has not taken. It is posted all the same, and the guest waits at its
 * next turn, for its thread must not.
 */
export class ReplayLogWindow implements PostWindow {
  #underway = 0;
  #taken: { readonly promise: Promise<void>; readonly resolve: () => void } | null = null;

  waitFor(chars: number): void {
    if (this.#underway === 0 || this.#underway + chars <= POST_WINDOW + MAX_BUFFERED_POSTS) return;
    trapGuest('the guest reads clocks and random values without yielding, faster than its journal is written');
  }

  add(chars: number): void {
    this.#underway += chars;
  }

  room(): Promise<void> | null {
    if (this.#underway <= POST_WINDOW) return null;
    this.#taken ??= Promise.withResolvers<void>();
    return this.#taken.promise;
  }

  /** The host has taken so much. */
  taken(chars: number): void {
    this.#underway -= chars;
    if (this.#underway <= POST_WINDOW) this.close();
  }

  /** Nothing waits any more. */
  close(): void {
    this.#taken?.resolve();
    this.#taken = null;
  }
}
