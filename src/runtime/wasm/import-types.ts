import { ModuleError } from '../abi/guest-module.ts';
import { REF_WITH_HEAP_TYPE, readSections, section, WasmReader } from './wasm-binary.ts';

export interface FunctionType {
  readonly params: readonly string[];
  readonly results: readonly string[];
}

const valueTypes: Readonly<Record<number, string>> = { 127: 'i32', 126: 'i64', 125: 'f32', 124: 'f64' };
const FUNCTION = 0x60;
const RECURSIVE_GROUP = 0x4e;
const SUBTYPES = [0x4f, 0x50];

/**
 * Types of the imported functions, in order, up to the first import that is not a function. The engine does not expose
 * them, and a wrong type would fail only at the call.
 *
 * Precondition: the module is valid. Modules with struct or array types are rejected: their objects are outside the linear
 * memory, so a loop that allocates could exhaust the host's memory and could not be terminated.
 */
export function importTypes(bytes: Uint8Array): (FunctionType | undefined)[] {
  const sections = readSections(bytes);
  const typeBody = sections.find(({ id }) => id === section.type)?.body;
  const importBody = sections.find(({ id }) => id === section.import)?.body;
  const functions = typeBody ? readTypes(new WasmReader(typeBody)) : [];
  if (!importBody) return [];

  const imports = new WasmReader(importBody);
  const found: (FunctionType | undefined)[] = [];
  for (let left = imports.unsigned(); left > 0; left--) {
    imports.name();
    imports.name();
    if (imports.byte() !== 0) return found; // a memory or table: it is refused by name
    found.push(functions[imports.unsigned()]);
  }
  return found;
}

/** Types of a type section, with recursion groups flattened. @throws ModuleError for struct and array types */
export function readTypes(reader: WasmReader): FunctionType[] {
  return reader
    .vector(() => {
      const first = reader.byte();
      if (first === RECURSIVE_GROUP) return reader.vector(() => readType(reader, reader.byte()));
      return [readType(reader, first)];
    })
    .flat();
}

function readType(reader: WasmReader, first: number): FunctionType {
  let form = first;
  if (SUBTYPES.includes(form)) {
    reader.vector(() => reader.unsigned());
    form = reader.byte();
  }
  if (form !== FUNCTION) {
    throw new ModuleError(
      'the module has struct or array types (wasm-gc), whose memory cannot be limited; build it without wasm-gc',
    );
  }
  const list = () => reader.vector(() => valueType(reader));
  return { params: list(), results: list() };
}

function valueType(reader: WasmReader): string {
  const first = reader.byte();
  if (REF_WITH_HEAP_TYPE.includes(first)) reader.rawNumber();
  return valueTypes[first] ?? 'other';
}
