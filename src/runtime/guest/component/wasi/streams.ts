// `wasi:io/streams` and `wasi:io/poll` of a guest: standard streams only. A wait suspends the guest, never the thread.

import type { DeterministicSources } from '../../../durable/guest/sources.ts';
import type { StandardStream } from '../../../port/guest-spec.ts';
import type { Output } from '../../hostcalls/output.ts';
import { trapGuest } from '../../trap.ts';

/** Input from the host thread: a guest thread that blocks on input could not be terminated. */
export interface StdinSource {
  /** Requests up to `maxBytes`; an empty chunk is the end. One request at a time. */
  readonly request: (maxBytes: number, receive: (chunk: Uint8Array) => void) => void;
  /** Takes messages that have arrived, for a guest that polls without waiting. */
  readonly drain: () => void;
  /** Called before arrived input is examined; a replay step. @default none */
  readonly mark?: (() => void) | null;
}

type StreamResult<T> =
  | { readonly tag: 'ok'; readonly val: T }
  | { readonly tag: 'err'; readonly val: { readonly tag: 'closed' } | { tag: 'last-operation-failed'; val: IoError } };

/** Upper bound of one operation, to bound memory. */
const MAX_BYTES = 1024 * 1024;

/** Bytes requested when the guest has not said how many it wants. */
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

/** `wasi:io/streams`: standard input. */
export class InputStream {
  readonly #source: StdinSource;
  readonly #wakes = new Set<() => void>();
  #chunk = new Uint8Array();
  #ended = false;
  #isRequesting = false;
  readonly #hold: Hold;

  constructor(source: StdinSource, hold: Hold = (wait) => wait) {
    this.#source = source;
    this.#hold = hold;
  }

  read(length: bigint): StreamResult<Uint8Array> {
    if (length === 0n) return this.#ended ? closed : ok(new Uint8Array());
    return this.#isReady() ? this.#take(atMost(length)) : ok(this.#request(atMost(length)));
  }

  async blockingRead(length: bigint): Promise<StreamResult<Uint8Array>> {
    if (length > 0n && !this.#isReady()) await this.#hold(this.#whenReady(atMost(length)));
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
      isReady: () => this.#isReady(),
      watch: (wake) => {
        this.#wakes.add(wake);
        this.#request(READ_AHEAD_BYTES);
        return () => this.#wakes.delete(wake);
      },
    };
    return new Pollable(readiness, this.#hold);
  }

  /** Whether there are bytes, or the end was reached. */
  #isReady(): boolean {
    this.#source.mark?.();
    if (this.#isRequesting) this.#source.drain();
    return this.#chunk.byteLength > 0 || this.#ended;
  }

  #request(maxBytes: number): Uint8Array {
    if (!this.#isRequesting && !this.#isReady()) {
      this.#isRequesting = true;
      this.#source.request(maxBytes, (chunk) => {
        this.#isRequesting = false;
        this.#chunk = new Uint8Array(chunk);
        this.#ended = chunk.byteLength === 0;
        for (const wake of this.#wakes) wake();
      });
    }
    return new Uint8Array();
  }

  #whenReady(maxBytes: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.#wakes.delete(wake);
        resolve();
      };
      this.#wakes.add(wake);
      this.#request(maxBytes);
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

/** `wasi:io/streams`: standard output or error. Writes are synchronous, so there is always room and nothing to flush. */
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

const MAX_TIMER_MS = 2_147_483_647;
const NS_PER_MS = 1_000_000n;

/** Something that becomes ready. `watch` calls `wake` when it may be, until the returned function is called. */
export interface Readiness {
  readonly isReady: () => boolean;
  readonly watch: (wake: () => void) => () => void;
}

/** Puts a wait under the guest's cancellation scope. */
export type Hold = <T>(wait: Promise<T>) => Promise<T>;

/** `wasi:io/poll`. */
export class Pollable {
  readonly #readiness: Readiness;
  readonly #hold: Hold;

  constructor(readiness: Readiness, hold: Hold = (wait) => wait) {
    this.#readiness = readiness;
    this.#hold = hold;
  }

  ready(): boolean {
    return this.#readiness.isReady();
  }

  async block(): Promise<void> {
    await this.#hold(untilAny([this.#readiness]));
  }

  static async poll(pollables: readonly Pollable[]): Promise<Uint32Array> {
    const [first] = pollables;
    if (first === undefined) return trapGuest('wasi:io/poll was called with an empty list');
    return first.#hold(untilAny(pollables.map((pollable) => pollable.#readiness)));
  }
}

export const alwaysReady: Readiness = { isReady: () => true, watch: () => () => {} };

/** `deadline` in nanoseconds of the monotonic clock. */
export function readyAt(deadline: bigint, sources: DeterministicSources): Readiness {
  return {
    isReady: () => sources.monotonicNs() >= deadline,
    watch(wake) {
      const ms = Number((deadline - sources.monotonicNs() + NS_PER_MS - 1n) / NS_PER_MS);
      return sources.after(Math.min(Math.max(ms, 0), MAX_TIMER_MS), wake);
    },
  };
}

/**
 * Indexes of the ready ones, in order. Yields to the event loop even if some are ready at once: a guest that polls would
 * starve it.
 */
async function untilAny(all: readonly Readiness[]): Promise<Uint32Array> {
  await new Promise((resolve) => setImmediate(resolve));
  for (;;) {
    const ready = all.flatMap(({ isReady }, index) => (isReady() ? [index] : []));
    if (ready.length > 0) return Uint32Array.from(ready);
    await anyChange(all);
  }
}

async function anyChange(all: readonly Readiness[]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stops = all.map(({ watch }) => watch(resolve));
  await promise;
  for (const stop of stops) stop();
}
