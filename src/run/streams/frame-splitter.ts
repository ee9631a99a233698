import { FRAME_HEADER_BYTES, readFrameHead } from '../../runtime/port/stream-frame.ts';

/**
 * Cuts a stream of bytes into frames. It holds less than one frame and one chunk, joins the chunks of a frame once, and
 * holds nothing after bytes that are no frame.
 */
export class FrameSplitter {
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  /** Until so many bytes are there, nothing new can be said of them. */
  #needed = FRAME_HEADER_BYTES;
  #isBroken = false;

  /** The frames that are whole now. The last is a text where the bytes are none: what is wrong, and nothing follows. */
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
      // A copy: a frame may wait long, and would hold the whole chunk.
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
