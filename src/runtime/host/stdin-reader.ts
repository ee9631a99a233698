import type { Readable } from 'node:stream';

const EMPTY = new Uint8Array();

/** Reads a stream on demand: nothing is taken from it that the guest did not ask for, beyond one chunk. */
export class StdinReader {
  readonly #open: () => Readable | null;
  #stream: Readable | null | undefined;
  #rest: Uint8Array = EMPTY;

  /** `open` is called at the first read: merely touching a process's stdin keeps it alive. */
  constructor(open: () => Readable | null) {
    this.#open = open;
  }

  /** At most `maxBytes`; empty at the end of the input. */
  async read(maxBytes: number): Promise<Uint8Array> {
    if (this.#rest.byteLength === 0) this.#rest = await this.#next();
    // A copy: posting a view sends the whole buffer behind it, and small buffers share theirs with the rest of the host.
    const chunk = new Uint8Array(this.#rest.subarray(0, maxBytes));
    this.#rest = this.#rest.subarray(maxBytes);
    return chunk;
  }

  close(): void {
    this.#stream?.destroy();
    this.#stream = null;
  }

  #next(): Promise<Uint8Array> {
    if (this.#stream === undefined) {
      this.#stream = this.#open();
      this.#stream?.on('error', () => {}); // an end like any other, also while nobody reads
    }
    const stream = this.#stream;
    if (!stream) return Promise.resolve(EMPTY);
    return new Promise((resolve) => {
      const attempt = () => {
        const chunk = stream.read() as Uint8Array | null;
        if (chunk === null && !stream.readableEnded && !stream.destroyed) return;
        for (const event of ['readable', 'end', 'error', 'close']) stream.off(event, attempt);
        resolve(chunk ?? EMPTY);
      };
      for (const event of ['readable', 'end', 'error', 'close']) stream.on(event, attempt);
      attempt();
    });
  }
}
