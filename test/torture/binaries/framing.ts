import { unsignedLeb } from '../../../src/runtime/wasm/wasm-binary.ts';

/** A section as it lies in the file; `body` is what follows its length. */
export interface Framed {
  readonly id: number;
  readonly body: Buffer;
}

export const PREAMBLE_BYTES = 8;

/** The sections of a valid binary: modules and components are framed alike. */
export function sectionsOf(bytes: Uint8Array): Framed[] {
  const sections: Framed[] = [];
  let at = PREAMBLE_BYTES;
  while (at < bytes.length) {
    const id = bytes[at] ?? 0;
    const { value, end } = readLeb(bytes, at + 1);
    sections.push({ id, body: Buffer.from(bytes.subarray(end, end + value)) });
    at = end + value;
  }
  return sections;
}

export function framed(bytes: Uint8Array, sections: readonly Framed[], length = unsignedLeb): Buffer {
  const parts = sections.flatMap(({ id, body }) => [Buffer.from([id, ...length(body.length)]), body]);
  return Buffer.concat([bytes.subarray(0, PREAMBLE_BYTES), ...parts]);
}

export function readLeb(bytes: Uint8Array, from: number): { readonly value: number; readonly end: number } {
  let value = 0;
  let at = from;
  for (let factor = 1; ; factor *= 128) {
    const byte = bytes[at++] ?? 0;
    value += (byte & 0x7f) * factor;
    if (byte < 0x80) return { value, end: at };
  }
}
