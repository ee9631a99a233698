import { ModuleError } from '../../abi/guest-module.ts';
import { readSections, section, WasmReader } from '../wasm-binary.ts';
import { MAX_SHIM_BYTES } from './component-limits.ts';
import type { CoreModuleShape } from './core-module-shape.ts';

// wit-component links a component in a circle: the lowered imports need the memory of the main module, which needs the
// imports. So the main module gets functions of a shim, each a jump through a table, and a fixup module fills the table
// when the memory is there. Here both are recognized by all of their code: anything else in them, and they are not.

/** The table that the shim's functions jump through. */
export const SHIM_TABLE = '$imports';

const ids = {
  custom: 0,
  type: 1,
  import: 2,
  function: 3,
  table: 4,
  export: 7,
  start: 8,
  element: 9,
  code: 10,
  data: 11,
} as const;
const LOCAL_GET = 0x20;
const I32_CONST = 0x41;
const CALL = 0x10;
const CALL_INDIRECT = 0x11;
const END = 0x0b;

/** The slot of the table that each exported function of a shim jumps through, or undefined if it is no shim. */
export function shimSlots(module: CoreModuleShape): ReadonlyMap<string, number> | undefined {
  return recognized(() => {
    const parts = bodies(module, [ids.type, ids.function, ids.table, ids.export, ids.code, ids.data]);
    if (!parts || module.imports.length > 0 || module.tables.length !== 1 || module.memories.length > 0)
      return undefined;
    const types = functionTypes(parts);
    const code = parts.get(ids.code);
    const functions = parts.get(ids.function);
    if (!types || !code || !functions) return undefined;
    return slotsOf(module, types, functions, code);
  });
}

function slotsOf(
  module: CoreModuleShape,
  paramCounts: readonly number[],
  functions: Uint8Array,
  code: Uint8Array,
): ReadonlyMap<string, number> | undefined {
  const typeOf = numbers(functions);
  const bodyReader = new WasmReader(code);
  const slots = bodyReader.vector((): readonly [type: number, slot: number] | undefined => {
    const body = new WasmReader(bodyReader.slice(bodyReader.unsigned()));
    return jump(body, paramCounts);
  });
  const found = new Map<string, number>();
  for (const { name, kind, index } of module.exports) {
    if (kind === 'table' && name === SHIM_TABLE) continue;
    const slot = slots[index];
    if (kind !== 'core-func' || !slot || slot[0] !== typeOf[index]) return undefined;
    found.set(name, slot[1]);
  }
  return found;
}

/** `local.get 0 … local.get n-1, i32.const slot, call_indirect type 0, end`, with no local of its own. */
function jump(body: WasmReader, paramCounts: readonly number[]): readonly [type: number, slot: number] | undefined {
  if (body.unsigned() !== 0) return undefined;
  let params = 0;
  while (body.peek() === LOCAL_GET) {
    body.byte();
    if (body.unsigned() !== params++) return undefined;
  }
  if (body.byte() !== I32_CONST) return undefined;
  const slot = signed(body);
  if (body.byte() !== CALL_INDIRECT) return undefined;
  const type = body.unsigned();
  const table = body.unsigned();
  if (table !== 0 || slot < 0 || paramCounts[type] !== params || body.byte() !== END || !body.done) return undefined;
  return [type, slot];
}

/**
 * What a fixup module puts into the slots of its imported table number `table`: its own imports, by their index among
 * its imported functions. Undefined if it does anything else with that table.
 */
export function fixupSlots(module: CoreModuleShape, table: number): readonly number[] | undefined {
  return recognized(() => {
    const parts = bodies(module, [ids.type, ids.import, ids.function, ids.start, ids.element, ids.code, ids.data]);
    const element = parts?.get(ids.element);
    if (!element || !onlyCalls(parts?.get(ids.code))) return undefined;
    const reader = new WasmReader(element);
    const segments = reader.vector(() => readSegment(reader)).filter((segment) => segment.table === table);
    const [segment] = segments;
    if (!segment || segments.length > 1 || segment.offset !== 0 || !reader.done) return undefined;
    const imported = module.imports.filter(({ kind }) => kind === 'core-func').length;
    return segment.functions.every((index) => index < imported) ? segment.functions : undefined;
  });
}

interface Segment {
  readonly table: number;
  readonly offset: number;
  readonly functions: readonly number[];
}

/** An active segment of functions: what a linker writes. */
function readSegment(reader: WasmReader): Segment {
  const form = reader.unsigned();
  if (form !== 0 && form !== 2) throw new ModuleError('the component has an element segment of an unsupported form');
  const table = form === 2 ? reader.unsigned() : 0;
  if (reader.byte() !== I32_CONST)
    throw new ModuleError('the component has an element segment with a non-constant offset');
  const offset = signed(reader);
  if (reader.byte() !== END) throw new ModuleError('the component has an element segment with a non-constant offset');
  if (form === 2 && reader.byte() !== 0x00)
    throw new ModuleError('the component has an element segment of an unsupported form');
  return { table, offset, functions: reader.vector(() => reader.unsigned()) };
}

/** Functions without locals that call others and do nothing else: they cannot touch a table. */
function onlyCalls(code: Uint8Array | undefined): boolean {
  if (!code) return true;
  const reader = new WasmReader(code);
  return reader
    .vector(() => {
      const body = new WasmReader(reader.slice(reader.unsigned()));
      if (body.unsigned() !== 0) return false;
      while (body.peek() === CALL) {
        body.byte();
        body.unsigned();
      }
      return body.byte() === END && body.done;
    })
    .every(Boolean);
}

/** The sections of a module that has no others, and none twice. */
function bodies(module: CoreModuleShape, allowed: readonly number[]): ReadonlyMap<number, Uint8Array> | undefined {
  if (module.bytes.byteLength > MAX_SHIM_BYTES) return undefined;
  const found = new Map<number, Uint8Array>();
  for (const { id, body } of readSections(module.bytes)) {
    if (id === section.custom) continue;
    if (!allowed.includes(id) || found.has(id)) return undefined;
    found.set(id, body);
  }
  return found;
}

/** How many parameters each type has, where all types are plain functions of plain numbers. */
function functionTypes(parts: ReadonlyMap<number, Uint8Array>): readonly number[] | undefined {
  const body = parts.get(ids.type);
  if (!body) return undefined;
  const reader = new WasmReader(body);
  const counts = reader.vector(() => {
    if (reader.byte() !== 0x60) return -1;
    const params = reader.vector(() => reader.byte()).length;
    reader.vector(() => reader.byte());
    return params;
  });
  return counts.includes(-1) ? undefined : counts;
}

function numbers(body: Uint8Array): number[] {
  const reader = new WasmReader(body);
  return reader.vector(() => reader.unsigned());
}

/** A signed LEB128 that fits into a double; the slots of a table are small. */
function signed(reader: WasmReader): number {
  let result = 0;
  for (let shift = 0; shift < 35; shift += 7) {
    const byte = reader.byte();
    result += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return byte & 0x40 ? -1 : result;
  }
  return -1;
}

/** A module that ends too soon is no shim; whether it is valid is for others to say. */
function recognized<T>(read: () => T | undefined): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof ModuleError) return undefined;
    throw error;
  }
}
