import { MAX_OUTPUT_CHUNK, MAX_OWED, MAX_UNDERWAY, type StandardStream } from '../port/guest-spec.ts';
import type { Output } from './hostcalls/output.ts';
import { trapGuest } from './uncatchable.ts';

type Chunk = Uint8Array<ArrayBuffer>;

/** Who tells the host what was written. */
export interface TellsOutput {
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
export class SharedOutput implements Output {
  readonly #teller: TellsOutput;
  /** Made at the first write: most guests that wait have written nothing. */
  readonly #lines: Record<StandardStream, Line | null> = { stdout: null, stderr: null };
  #owed = 0;
  #paid: { readonly promise: Promise<void>; readonly resolve: () => void } | null = null;

  constructor(teller: TellsOutput) {
    this.#teller = teller;
  }

  write(stream: StandardStream, bytes: Uint8Array): boolean {
    if (this.#owed + bytes.byteLength > MAX_OWED)
      trapGuest('the guest writes output without yielding, faster than the output is read');
    for (let at = 0; at < bytes.byteLength; at += MAX_OUTPUT_CHUNK) {
      // A copy: the guest writes on into the memory that this is a view of.
      const chunk = new Uint8Array(bytes.subarray(at, at + MAX_OUTPUT_CHUNK));
      const line = this.#line(stream);
      if (line.waiting.length === 0 && line.underway + chunk.byteLength <= MAX_UNDERWAY) this.#send(stream, chunk);
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
      if (line.underway + next.byteLength > MAX_UNDERWAY) break;
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
