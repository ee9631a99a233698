import type { Readable, Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { FRAME_HEADER_BYTES, readFrameHead } from '../../runtime/port/user-stream.ts';
import type { ClientSession, StreamEnd } from './stream-client.ts';

/** Ends a client. A byte stream cannot carry the problem to the client, so the caller reports it. */
export type EndClient = (problem: string | null) => void;

/**
 * Connects a client that sends frames over a pair of byte streams. False: the hub has a client already. After the end of
 * its input the client may still receive frames; it is gone when writes fail. `hasLeft` checks that without a write.
 * @default false, for a listener without other clients
 */
export function connectByteClient(
  hub: StreamEnd,
  input: Readable,
  output: Writable,
  end: EndClient,
  hasLeft: () => boolean = () => false,
): boolean {
  const splitter = new FrameSplitter();
  let isLeaving = false;
  const session: ClientSession | null = hub.connect({
    send: (frame, taken) => void output.write(frame, () => taken()),
    pause() {
      if (!isLeaving) input.pause();
    },
    resume: () => void input.resume(),
    async check(signal) {
      if (!hasLeft()) return;
      isLeaving = true; // the rest is bounded by the buffer of the socket
      input.resume();
      if (!input.readableEnded) await finished(input, { writable: false, signal });
      end(null);
      session?.gone();
    },
    close: end,
  });
  if (session === null) return false;
  const fault = (problem: string) => {
    end(problem);
    session.gone();
  };
  input.on('data', (chunk: Uint8Array) => {
    for (const frame of splitter.split(chunk)) {
      if (typeof frame === 'string') fault(frame);
      else session.receive(frame);
    }
  });
  input.once('end', () => {
    if (splitter.isInside) fault('the input ended in the middle of a frame');
    else session.ended();
  });
  input.once('close', () => session.ended());
  input.once('error', () => session.gone());
  for (const event of ['close', 'error', 'finish']) output.once(event, () => session.gone());
  return true;
}

/**
 * Splits a byte stream into frames. Holds less than one frame and one chunk, joins the chunks of a frame once, and holds
 * nothing after invalid bytes.
 */
export class FrameSplitter {
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  /** Number of bytes needed for the next step. */
  #needed = FRAME_HEADER_BYTES;
  #isBroken = false;

  /** Yields complete frames; a string describes invalid bytes, after which nothing follows. */
  *split(chunk: Uint8Array): Generator<Uint8Array | string> {
    if (this.#isBroken) return;
    this.#chunks.push(Buffer.from(chunk));
    this.#bytes += chunk.byteLength;
    if (this.#bytes < this.#needed) return;
    let rest = this.#chunks.length === 1 ? (this.#chunks[0] as Uint8Array) : Buffer.concat(this.#chunks);
    this.#hold(rest, FRAME_HEADER_BYTES);
    while (rest.byteLength >= FRAME_HEADER_BYTES) {
      const head = readFrameHead(rest);
      if (typeof head === 'string') {
        this.#isBroken = true;
        this.#hold(new Uint8Array(0), FRAME_HEADER_BYTES);
        return yield head;
      }
      if (rest.byteLength < head.length) return this.#hold(rest, head.length);
      // Copied, because a buffered frame would retain the whole chunk.
      const frame = new Uint8Array(rest.subarray(0, head.length));
      rest = rest.subarray(head.length);
      this.#hold(rest, FRAME_HEADER_BYTES);
      yield frame;
    }
  }

  /** Whether the bytes ended in the middle of a frame. */
  get isInside(): boolean {
    return this.#bytes > 0;
  }

  #hold(rest: Uint8Array, needed: number): void {
    this.#chunks = rest.byteLength === 0 ? [] : [rest];
    this.#bytes = rest.byteLength;
    this.#needed = needed;
  }
}
