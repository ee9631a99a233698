import { readSections, section, WasmReader } from './wasm-binary.ts';

export interface FunctionType {
  readonly params: readonly string[];
  readonly results: readonly string[];
}

const valueTypes: Readonly<Record<number, string>> = { 127: 'i32', 126: 'i64', 125: 'f32', 124: 'f64' };
const FUNCTION = 0x60;

/**
 * The type of every imported function, by `module.name`. The engine does not tell, and the wrong type would show only
 * when the call is made. `undefined` for modules whose type section has more than plain functions.
 */
export function importTypes(bytes: Uint8Array): Map<string, FunctionType> | undefined {
  const sections = readSections(bytes);
  const typeBody = sections.find(({ id }) => id === section.type)?.body;
  const importBody = sections.find(({ id }) => id === section.import)?.body;
  if (!typeBody || !importBody) return new Map();

  const types = new WasmReader(typeBody);
  const functions: FunctionType[] = [];
  for (let left = types.unsigned(); left > 0; left--) {
    if (types.byte() !== FUNCTION) return undefined;
    const list = () => types.vector(() => valueTypes[types.byte()] ?? 'other');
    functions.push({ params: list(), results: list() });
  }

  const imports = new WasmReader(importBody);
  const found = new Map<string, FunctionType>();
  for (let left = imports.unsigned(); left > 0; left--) {
    const key = `${imports.name()}.${imports.name()}`;
    if (imports.byte() !== 0) return found; // a memory or table: link refuses those by name
    const type = functions[imports.unsigned()];
    if (type) found.set(key, type);
  }
  return found;
}
