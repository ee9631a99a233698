import { REF_WITH_HEAP_TYPE, readSections, section, WasmReader } from './wasm-binary.ts';

export interface FunctionType {
  readonly params: readonly string[];
  readonly results: readonly string[];
}

const valueTypes: Readonly<Record<number, string>> = { 127: 'i32', 126: 'i64', 125: 'f32', 124: 'f64' };
const FUNCTION = 0x60;

/**
 * The types of the imported functions, in the order of the imports and up to the first that is no function. The engine
 * does not tell, and the wrong type would show only when the call is made. `undefined` for modules whose type section
 * has more than plain functions.
 */
export function importTypes(bytes: Uint8Array): (FunctionType | undefined)[] | undefined {
  const sections = readSections(bytes);
  const typeBody = sections.find(({ id }) => id === section.type)?.body;
  const importBody = sections.find(({ id }) => id === section.import)?.body;
  if (!typeBody || !importBody) return [];

  const types = new WasmReader(typeBody);
  const functions: FunctionType[] = [];
  for (let left = types.unsigned(); left > 0; left--) {
    if (types.byte() !== FUNCTION) return undefined;
    const list = () => types.vector(() => valueType(types));
    functions.push({ params: list(), results: list() });
  }

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

function valueType(reader: WasmReader): string {
  const first = reader.byte();
  if (REF_WITH_HEAP_TYPE.includes(first)) reader.rawNumber();
  return valueTypes[first] ?? 'other';
}
