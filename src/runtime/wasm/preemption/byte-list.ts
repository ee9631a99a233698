import { unsignedLeb } from '../wasm-binary.ts';

/** Bytes that are put together out of parts. */
export class ByteList {
  readonly #parts: Uint8Array[] = [];
  byteLength = 0;

  add(part: Uint8Array | readonly number[]): this {
    const bytes = part instanceof Uint8Array ? part : Uint8Array.from(part);
    this.#parts.push(bytes);
    this.byteLength += bytes.byteLength;
    return this;
  }

  number(value: number): this {
    return this.add(unsignedLeb(value));
  }

  join(other: ByteList): this {
    for (const bytes of other.#parts) this.add(bytes);
    return this;
  }

  /** With its length before it. */
  sized(part: ByteList): this {
    return this.number(part.byteLength).join(part);
  }

  bytes(): Uint8Array {
    return Buffer.concat(this.#parts);
  }
}

export const nameBytes = (name: string): readonly number[] => {
  const bytes = Buffer.from(name);
  return [...unsignedLeb(bytes.byteLength), ...bytes];
};
