import { ModuleError } from '../abi/guest-module.ts';

export const section = {
  custom: 0,
  type: 1,
  import: 2,
  function: 3,
  table: 4,
  memory: 5,
  global: 6,
  export: 7,
  start: 8,
  element: 9,
  code: 10,
  data: 11,
  dataCount: 12,
  tag: 13,
} as const;

/** `ref null` and `ref`: value types that a heap type follows. */
export const REF_WITH_HEAP_TYPE: readonly number[] = [0x63, 0x64];

export interface Section {
  readonly id: number;
  readonly body: Uint8Array;
}

export type BinaryKind = 'core' | 'component';

const PREAMBLE_BYTES = 8;
const CORE = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];
const COMPONENT = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];

export function binaryKind(bytes: Uint8Array): BinaryKind | undefined {
  const startsWith = (preamble: number[]) => preamble.every((byte, index) => bytes[index] === byte);
  return startsWith(CORE) ? 'core' : startsWith(COMPONENT) ? 'component' : undefined;
}

/** Reader of the binary format. @throws ModuleError past the end */
export class WasmReader {
  readonly #bytes: Uint8Array;
  offset = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.offset >= this.#bytes.byteLength;
  }

  get left(): number {
    return this.#bytes.byteLength - this.offset;
  }

  /** The next byte without consuming it; -1 at the end. */
  peek(): number {
    return this.#bytes[this.offset] ?? -1;
  }

  byte(): number {
    const byte = this.#bytes[this.offset++];
    if (byte === undefined) throw new ModuleError('unexpected end of the module');
    return byte;
  }

  /** Reads an unsigned LEB128 of at most 64 bits. Values above 2^53 are rounded; all of them exceed every limit. */
  unsigned(): number {
    let result = 0;
    let factor = 1;
    for (let count = 0; count < 10; count++) {
      const byte = this.byte();
      result += (byte & 0x7f) * factor;
      if (byte < 0x80) return result;
      factor *= 128;
    }
    throw new ModuleError('malformed LEB128 integer in the module');
  }

  slice(length: number): Uint8Array {
    if (this.offset + length > this.#bytes.byteLength) throw new ModuleError('unexpected end of the module');
    this.offset += length;
    return this.#bytes.subarray(this.offset - length, this.offset);
  }

  /** Reads the bytes of a LEB128 without decoding it. */
  rawNumber(): number[] {
    const start = this.offset;
    this.unsigned();
    return [...this.#bytes.subarray(start, this.offset)];
  }

  name(): string {
    return Buffer.from(this.slice(this.unsigned())).toString('utf8');
  }

  vector<T>(item: () => T): T[] {
    const items: T[] = [];
    for (let left = this.unsigned(); left > 0; left--) items.push(item());
    return items;
  }
}

/** Precondition: {@link binaryKind} is `core`. */
export function readSections(bytes: Uint8Array): Section[] {
  const reader = new WasmReader(bytes);
  reader.slice(PREAMBLE_BYTES);
  const sections: Section[] = [];
  while (!reader.done) {
    const id = reader.byte();
    sections.push({ id, body: reader.slice(reader.unsigned()) });
  }
  return sections;
}

export function writeSections(sections: readonly Section[]): Uint8Array {
  const parts: Uint8Array[] = [Uint8Array.from(CORE)];
  for (const { id, body } of sections) {
    parts.push(Uint8Array.from([id, ...unsignedLeb(body.byteLength)]), body);
  }
  return Buffer.concat(parts);
}

export function unsignedLeb(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  do {
    const low = rest % 128;
    rest = Math.floor(rest / 128);
    bytes.push(rest > 0 ? low | 0x80 : low);
  } while (rest > 0);
  return bytes;
}
