/** Node's fast string paths; `Buffer` has them, its type declarations do not. */
interface FastBuffer extends Buffer {
  utf8Slice(start: number, end: number): string;
  utf8Write(text: string, offset: number, length: number): number;
}

/**
 * The guest's linear memory. Growing it detaches the buffer behind every view, in silence, so each access goes through
 * {@link bytes} or {@link words}, which renew a detached view. Reading `memory.buffer` on every call instead would cost
 * ten times as much.
 */
export class GuestMemory {
  #memory: WebAssembly.Memory | undefined;
  #bytes = Buffer.alloc(0) as FastBuffer;
  #words = new DataView(this.#bytes.buffer, 0, 0);

  /** Until the instance exists its memory cannot be reached: no range is inside, and every pointer is a fault. */
  attach(memory: WebAssembly.Memory): void {
    this.#memory = memory;
    this.#bytes = Buffer.alloc(0) as FastBuffer;
  }

  get bytes(): Buffer {
    return this.#fresh();
  }

  get words(): DataView {
    this.#fresh();
    return this.#words;
  }

  /** Both as the unsigned numbers that the guest meant. The sum cannot overflow a double. */
  holds(ptr: number, length: number): boolean {
    return ptr + length <= this.#fresh().byteLength;
  }

  /** Precondition: {@link holds}. Invalid UTF-8 is replaced. */
  readText(ptr: number, length: number): string {
    return this.#fresh().utf8Slice(ptr, ptr + length);
  }

  /** Precondition: {@link holds} for the encoded length. */
  writeText(text: string, ptr: number, length: number): number {
    return this.#fresh().utf8Write(text, ptr, length);
  }

  #fresh(): FastBuffer {
    if (this.#bytes.byteLength === 0 && this.#memory) {
      this.#bytes = Buffer.from(this.#memory.buffer) as FastBuffer;
      this.#words = new DataView(this.#memory.buffer);
    }
    return this.#bytes;
  }
}
