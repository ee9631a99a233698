import { FRAME_HEADER_BYTES, readFrameHead } from '../../protocol/stream-frame.ts';

/** Cuts a stream of bytes into frames. It holds less than one frame and one chunk. */
export class FrameSplitter {
  #rest: Buffer = Buffer.alloc(0);

  /** The frames that are whole now. The last is a text where the bytes are none: what is wrong, and nothing follows. */
  *split(chunk: Uint8Array): Generator<Uint8Array | string> {
    this.#rest = this.#rest.byteLength === 0 ? Buffer.from(chunk) : Buffer.concat([this.#rest, chunk]);
    while (this.#rest.byteLength >= FRAME_HEADER_BYTES) {
      const head = readFrameHead(this.#rest);
      if (typeof head === 'string') return yield head;
      if (this.#rest.byteLength < head.length) return;
      // A copy: a frame may wait long, and would hold the whole chunk.
      const frame = new Uint8Array(this.#rest.subarray(0, head.length));
      this.#rest = this.#rest.subarray(head.length);
      yield frame;
    }
  }

  /** Whether the bytes ended in the middle of a frame. */
  get isInside(): boolean {
    return this.#rest.byteLength > 0;
  }
}
