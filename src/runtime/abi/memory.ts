/** Node's fast string paths; `Buffer` has them, its type declarations do not. */
interface FastBuffer extends Buffer {
  utf8Slice(start: number, end: number): string;
  utf8Write(text: string, offset: number, length: number): number;
}

const NO_BYTES = Buffer.alloc(0) as FastBuffer;
const NO_WORDS = new DataView(NO_BYTES.buffer, 0, 0);

/**
 * The guest's linear memory. Growing it silently detaches every view, so each access goes through {@link bytes} or
 * {@link words}, which renew a detached view. perf: reading `memory.buffer` on every call would cost ten times as much.
 */
export class GuestMemory {
  #memory: WebAssembly.Memory | undefined;
  #bytes = NO_BYTES;
  #words = NO_WORDS;
  /** Created on first use: most waiting guests have passed few texts. */
  #shortTexts: ShortTexts | null = null;
  #decode: ((ptr: number, length: number) => string) | null = null;

  /** Before this is called no range is valid, and every pointer is a fault. */
  attach(memory: WebAssembly.Memory): void {
    this.#memory = memory;
    this.#bytes = NO_BYTES;
  }

  /** Current size. */
  get byteLength(): number {
    return this.#memory?.buffer.byteLength ?? 0;
  }

  get bytes(): Buffer {
    return this.#fresh();
  }

  get words(): DataView {
    this.#fresh();
    return this.#words;
  }

  /** Whether the range is inside the memory. Both numbers are unsigned 32-bit, so the sum is exact. */
  holds(ptr: number, length: number): boolean {
    return ptr + length <= this.#fresh().byteLength;
  }

  /** Precondition: {@link holds}. Invalid UTF-8 is replaced. */
  readText(ptr: number, length: number): string {
    const bytes = this.#fresh();
    if (length > SHORT_TEXT_BYTES) return bytes.utf8Slice(ptr, ptr + length);
    this.#shortTexts ??= new ShortTexts();
    this.#decode ??= (from, count) => this.#bytes.utf8Slice(from, from + count);
    return this.#shortTexts.read(bytes, ptr, length, this.#decode);
  }

  /** Precondition: {@link holds} for the encoded length. */
  writeText(text: string, ptr: number, length: number): number {
    return this.#fresh().utf8Write(text, ptr, length);
  }

  /** The capacity of an out-buffer, or -1 if the buffer or its length leaves the memory. */
  outCapacity(out: number, outLen: number): number {
    const size = this.#fresh().byteLength;
    if (outLen + 4 > size) return -1;
    const capacity = this.#words.getUint32(outLen, true);
    return out + capacity <= size ? capacity : -1;
  }

  /** Precondition: {@link outCapacity} of the same buffer was at least the length. */
  writeOut(body: Uint8Array, out: number, outLen: number): number {
    const bytes = this.#fresh();
    const { byteLength } = body;
    if (byteLength > 0) bytes.set(body, out);
    this.#words.setUint32(outLen, byteLength, true);
    return byteLength;
  }

  #fresh(): FastBuffer {
    if (this.#bytes.byteLength === 0 && this.#memory) {
      this.#bytes = Buffer.from(this.#memory.buffer) as FastBuffer;
      this.#words = new DataView(this.#memory.buffer);
    }
    return this.#bytes;
  }
}

/** Longest text in the cache; roles, keys and names of servers and tools are shorter. */
export const SHORT_TEXT_BYTES = 24;

const SLOTS = 64;

/**
 * Cache of decoded short ASCII texts. perf: decoding `user` for the thousandth time costs ten times as much as comparing
 * its bytes with the cached string.
 */
export class ShortTexts {
  /** Created on first use. */
  #texts: string[] | null = null;

  /** Precondition: the range is inside, and at most {@link SHORT_TEXT_BYTES} long. */
  read(bytes: Uint8Array, ptr: number, length: number, decode: (ptr: number, length: number) => string): string {
    const slot =
      length === 0 ? 0 : ((bytes[ptr] as number) * 31 + (bytes[ptr + length - 1] as number) * 7 + length) % SLOTS;
    this.#texts ??= Array.from({ length: SLOTS }, () => '');
    const known = this.#texts[slot] as string;
    if (known.length === length && isSame(known, bytes, ptr, length)) return known;
    const text = decode(ptr, length);
    if (isSame(text, bytes, ptr, length)) this.#texts[slot] = text;
    return text;
  }
}

function isSame(text: string, bytes: Uint8Array, ptr: number, length: number): boolean {
  if (text.length !== length) return false;
  for (let at = 0; at < length; at++) if (text.charCodeAt(at) !== bytes[ptr + at]) return false;
  return true;
}
