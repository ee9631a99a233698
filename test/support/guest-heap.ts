const FIRST = 1024;
const CANARY = 0xca;
const CANARY_BYTES = 16;

/** An out-buffer in the guest's memory, with bytes around it that nobody may touch. */
export class OutBuffer {
  readonly #heap: GuestHeap;
  readonly ptr: number;
  readonly lengthPtr: number;
  readonly capacity: number;

  constructor(heap: GuestHeap, ptr: number, lengthPtr: number, capacity: number) {
    this.#heap = heap;
    this.ptr = ptr;
    this.lengthPtr = lengthPtr;
    this.capacity = capacity;
    heap.bytes.fill(CANARY, ptr - CANARY_BYTES, ptr + capacity + CANARY_BYTES);
    heap.bytes.fill(CANARY, lengthPtr - CANARY_BYTES, lengthPtr + 4 + CANARY_BYTES);
    this.offer(capacity);
  }

  /** The two parameters of a call. */
  get args(): [ptr: number, lengthPtr: number] {
    return [this.ptr, this.lengthPtr];
  }

  /** What `*out_len_ptr` holds. */
  get length(): number {
    return this.#heap.bytes.readUInt32LE(this.lengthPtr);
  }

  offer(capacity: number): this {
    this.#heap.bytes.writeUInt32LE(capacity, this.lengthPtr);
    return this;
  }

  text(): string {
    return this.bytes().toString();
  }

  bytes(): Buffer {
    return Buffer.from(this.#heap.bytes.subarray(this.ptr, this.ptr + this.length));
  }

  /** Whether the first `used` bytes of the buffer, and its length, are all that was written. */
  isIntactBeyond(used: number): boolean {
    const { bytes } = this.#heap;
    const around = [
      bytes.subarray(this.ptr - CANARY_BYTES, this.ptr),
      bytes.subarray(this.ptr + used, this.ptr + this.capacity + CANARY_BYTES),
      bytes.subarray(this.lengthPtr - CANARY_BYTES, this.lengthPtr),
      bytes.subarray(this.lengthPtr + 4, this.lengthPtr + 4 + CANARY_BYTES),
    ];
    return around.every((part) => part.every((byte) => byte === CANARY));
  }
}

/** Places things in a guest's memory, one after the other, and frees none of them alone. */
export class GuestHeap {
  readonly memory: WebAssembly.Memory;
  #next = FIRST;

  constructor(memory: WebAssembly.Memory) {
    this.memory = memory;
  }

  get bytes(): Buffer {
    return Buffer.from(this.memory.buffer);
  }

  alloc(length: number, align = 8): number {
    const ptr = Math.ceil(this.#next / align) * align;
    this.#next = ptr + length;
    if (this.#next > this.memory.buffer.byteLength)
      throw new Error('the test guest has no room left: give it more pages');
    return ptr;
  }

  /** Everything that was placed may be overwritten from here on. */
  reset(): void {
    this.#next = FIRST;
  }

  text(text: string | Uint8Array): [ptr: number, length: number] {
    const bytes = Buffer.from(text);
    const ptr = this.alloc(bytes.byteLength);
    bytes.copy(this.bytes, ptr);
    return [ptr, bytes.byteLength];
  }

  /** `(arg_ptr, arg_len_ptr)` of a command that takes something in. */
  arg(text: string): [ptr: number, lengthPtr: number] {
    const [ptr, length] = this.text(text);
    return [ptr, this.word(length)];
  }

  word(value: number): number {
    const ptr = this.alloc(4);
    this.bytes.writeUInt32LE(value, ptr);
    return ptr;
  }

  out(capacity: number): OutBuffer {
    const ptr = this.alloc(capacity + 2 * CANARY_BYTES) + CANARY_BYTES;
    return new OutBuffer(this, ptr, this.alloc(4 + 2 * CANARY_BYTES) + CANARY_BYTES, capacity);
  }
}
