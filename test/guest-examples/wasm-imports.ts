/** A function import as the binary declares it, in the notation of the text format: `(i32,i32)->(i64)`. */
export interface FunctionImport {
  readonly module: string;
  readonly name: string;
  readonly signature: string;
}

export interface ModuleShape {
  readonly imports: readonly FunctionImport[];
  readonly hasStartSection: boolean;
}

const TYPE_SECTION = 1;
const IMPORT_SECTION = 2;
const START_SECTION = 8;
const FUNCTION_TYPE = 0x60;
const valueTypes: Readonly<Record<number, string>> = { 127: 'i32', 126: 'i64', 125: 'f32', 124: 'f64' };

class Reader {
  readonly #bytes: Uint8Array;
  at: number;

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes;
    this.at = at;
  }

  byte(): number {
    const byte = this.#bytes[this.at++];
    if (byte === undefined) throw new Error(`the module ends at ${this.at - 1}`);
    return byte;
  }

  unsigned(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.byte();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  }

  name(): string {
    const length = this.unsigned();
    this.at += length;
    return new TextDecoder().decode(this.#bytes.subarray(this.at - length, this.at));
  }

  list<T>(item: () => T): T[] {
    return Array.from({ length: this.unsigned() }, item);
  }
}

/** Knows just enough of the format for the guests here: imports of functions, plain function types. */
export function readModule(bytes: Uint8Array): ModuleShape {
  const reader = new Reader(bytes, 8);
  let types: string[] = [];
  let imports: FunctionImport[] = [];
  let hasStartSection = false;
  const valueType = () => valueTypes[reader.byte()] ?? 'other';
  while (reader.at < bytes.byteLength) {
    const id = reader.byte();
    const size = reader.unsigned();
    const end = reader.at + size;
    if (id === TYPE_SECTION) {
      types = reader.list(() => {
        if (reader.byte() !== FUNCTION_TYPE) throw new Error('a type that is no function type');
        return `(${reader.list(valueType)})->(${reader.list(valueType)})`;
      });
    } else if (id === IMPORT_SECTION) {
      imports = reader.list(() => {
        const module = reader.name();
        const name = reader.name();
        if (reader.byte() !== 0) throw new Error(`${module}.${name} is no function`);
        return { module, name, signature: types[reader.unsigned()] ?? 'missing' };
      });
    } else if (id === START_SECTION) hasStartSection = true;
    reader.at = end;
  }
  return { imports, hasStartSection };
}
