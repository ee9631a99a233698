import type { StandardStream } from '../../../port/guest-spec.ts';
import type { Output } from '../../hostcalls/output.ts';
import { trapGuest } from '../../uncatchable.ts';
import { alwaysReady, type Hold, Pollable, type Readiness } from './poll.ts';

/** Where a guest's input comes from: the host thread, because a thread that waits for its own input cannot be ended. */
export interface StdinSource {
  /** Up to `maxBytes`, an empty chunk at the end of the input. Called again only after the answer. */
  readonly request: (maxBytes: number, receive: (chunk: Uint8Array) => void) => void;
  /** Takes in what has arrived, for a guest that asks again and again without waiting. */
  readonly drain: () => void;
  /** Called before anybody looks what has come. @default nobody wants to know */
  readonly mark?: (() => void) | null;
}

type StreamResult<T> =
  | { readonly tag: 'ok'; readonly val: T }
  | { readonly tag: 'err'; readonly val: { readonly tag: 'closed' } | { tag: 'last-operation-failed'; val: IoError } };

/** What one operation moves at most: more would only hold more memory. */
const MAX_BYTES = 1024 * 1024;

/** Bytes that are asked for when the guest has not said how many it wants. */
const READ_AHEAD_BYTES = 65_536;

const ok = <T>(val: T): StreamResult<T> => ({ tag: 'ok', val });
const closed = { tag: 'err', val: { tag: 'closed' } } as const;
const atMost = (length: bigint): number => Number(length < BigInt(MAX_BYTES) ? length : MAX_BYTES);

/** `wasi:io/error`. */
export class IoError {
  readonly #message: string;

  constructor(message: string) {
    this.#message = message;
  }

  toDebugString(): string {
    return this.#message;
  }
}

/** `wasi:io/streams`: the guest's standard input, the only input there is. */
export class InputStream {
  readonly #source: StdinSource;
  readonly #wakes = new Set<() => void>();
  #chunk = new Uint8Array();
  #ended = false;
  #asking = false;
  readonly #hold: Hold;

  constructor(source: StdinSource, hold: Hold = (wait) => wait) {
    this.#source = source;
    this.#hold = hold;
  }

  read(length: bigint): StreamResult<Uint8Array> {
    if (length === 0n) return this.#ended ? closed : ok(new Uint8Array());
    return this.#hasNews() ? this.#take(atMost(length)) : ok(this.#ask(atMost(length)));
  }

  async blockingRead(length: bigint): Promise<StreamResult<Uint8Array>> {
    if (length > 0n && !this.#hasNews()) await this.#hold(this.#news(atMost(length)));
    return this.read(length);
  }

  skip(length: bigint): StreamResult<bigint> {
    return skipped(this.read(length));
  }

  async blockingSkip(length: bigint): Promise<StreamResult<bigint>> {
    return skipped(await this.blockingRead(length));
  }

  subscribe(): Pollable {
    const readiness: Readiness = {
      isReady: () => this.#hasNews(),
      watch: (wake) => {
        this.#wakes.add(wake);
        this.#ask(READ_AHEAD_BYTES);
        return () => this.#wakes.delete(wake);
      },
    };
    return new Pollable(readiness, this.#hold);
  }

  /** Bytes, or the news that there will be none. */
  #hasNews(): boolean {
    this.#source.mark?.();
    if (this.#asking) this.#source.drain();
    return this.#chunk.byteLength > 0 || this.#ended;
  }

  #ask(maxBytes: number): Uint8Array {
    if (!this.#asking && !this.#hasNews()) {
      this.#asking = true;
      this.#source.request(maxBytes, (chunk) => {
        this.#asking = false;
        this.#chunk = new Uint8Array(chunk);
        this.#ended = chunk.byteLength === 0;
        for (const wake of this.#wakes) wake();
      });
    }
    return new Uint8Array();
  }

  #news(maxBytes: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.#wakes.delete(wake);
        resolve();
      };
      this.#wakes.add(wake);
      this.#ask(maxBytes);
    });
  }

  #take(maxBytes: number): StreamResult<Uint8Array> {
    if (this.#chunk.byteLength === 0) return closed;
    const taken = this.#chunk.subarray(0, maxBytes);
    this.#chunk = this.#chunk.subarray(maxBytes);
    return ok(taken);
  }
}

function skipped(read: StreamResult<Uint8Array>): StreamResult<bigint> {
  return read.tag === 'ok' ? ok(BigInt(read.val.byteLength)) : read;
}

/** `wasi:io/streams`: standard output or error. Written at once, so there is always room and nothing to flush. */
export class OutputStream {
  readonly #output: Output;
  readonly #stream: StandardStream;
  readonly #hold: Hold;

  constructor(output: Output, stream: StandardStream, hold: Hold = (wait) => wait) {
    this.#output = output;
    this.#stream = stream;
    this.#hold = hold;
  }

  checkWrite(): StreamResult<bigint> {
    return ok(BigInt(MAX_BYTES));
  }

  write(contents: Uint8Array): StreamResult<undefined> {
    if (this.#output.write(this.#stream, contents)) return ok(undefined);
    return {
      tag: 'err',
      val: { tag: 'last-operation-failed', val: new IoError(`cannot write to ${this.#stream}`) },
    };
  }

  blockingWriteAndFlush(contents: Uint8Array): StreamResult<undefined> {
    return this.write(contents);
  }

  flush(): StreamResult<undefined> {
    return ok(undefined);
  }

  blockingFlush(): StreamResult<undefined> {
    return ok(undefined);
  }

  subscribe(): Pollable {
    return new Pollable(alwaysReady, this.#hold);
  }

  writeZeroes(length: bigint): StreamResult<undefined> {
    if (length > BigInt(MAX_BYTES))
      trapGuest('write-zeroes was called with a length above the one that check-write returned');
    return this.write(new Uint8Array(Number(length)));
  }

  blockingWriteZeroesAndFlush(length: bigint): StreamResult<undefined> {
    return this.writeZeroes(length);
  }

  splice(source: InputStream, length: bigint): StreamResult<bigint> {
    return this.#passOn(source.read(length));
  }

  async blockingSplice(source: InputStream, length: bigint): Promise<StreamResult<bigint>> {
    return this.#passOn(await source.blockingRead(length));
  }

  #passOn(read: StreamResult<Uint8Array>): StreamResult<bigint> {
    if (read.tag === 'err') return read;
    const written = this.write(read.val);
    return written.tag === 'err' ? written : ok(BigInt(read.val.byteLength));
  }
}
