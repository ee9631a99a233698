import { ModuleError } from '../abi/guest-module.ts';
import type { Limits } from '../port/limits.ts';
import {
  REF_WITH_HEAP_TYPE,
  readSections,
  type Section,
  section,
  unsignedLeb,
  WasmReader,
  writeSections,
} from './wasm-binary.ts';

export const PAGE_BYTES = 65_536;
const MAX_TABLES = 16;

const HAS_MAX = 0x01;
const SHARED = 0x02;
const SIXTY_FOUR = 0x04;

const TABLE_WITH_INIT = 0x40;
const END = 0x0b;

/** Maximum of a memory or table with initial size `min`. Throws if `min` exceeds the limit. */
export interface Bounds {
  readonly maxPages: (min: number) => number;
  readonly maxElements: (min: number) => number;
}

/**
 * Writes the task's maximum into the memory and the tables of a module. A worker's `resourceLimits` do not apply to
 * WebAssembly memory: without this pass a guest could use four gigabytes.
 */
export function boundMemory(bytes: Uint8Array, limits: Limits): Uint8Array {
  return writeBounds(bytes, {
    maxPages(min) {
      const maxPages = Math.floor(limits.memory_bytes / PAGE_BYTES);
      if (min > maxPages) {
        throw new ModuleError(
          `the module starts with ${min * PAGE_BYTES} bytes of memory, limits.memory_bytes is ${limits.memory_bytes}`,
        );
      }
      return maxPages;
    },
    maxElements(min) {
      if (min > limits.table_elements) {
        throw new ModuleError(
          `the module has a table of ${min} entries, limits.table_elements is ${limits.table_elements}`,
        );
      }
      return limits.table_elements;
    },
  });
}

export function writeBounds(bytes: Uint8Array, bounds: Bounds): Uint8Array {
  return writeSections(
    readSections(bytes).map((part) => {
      if (part.id === section.memory) return boundMemories(part, bounds);
      if (part.id === section.table) return boundTables(part, bounds);
      return part;
    }),
  );
}

function boundMemories(part: Section, { maxPages }: Bounds): Section {
  const reader = new WasmReader(part.body);
  const memories = reader.vector(() => {
    const { min, max } = readLimits(reader, 'memory');
    return [HAS_MAX, ...unsignedLeb(min), ...unsignedLeb(Math.min(max, maxPages(min)))];
  });
  if (memories.length > 1) throw new ModuleError('the module has several memories; only one is supported');
  return { id: part.id, body: Uint8Array.from([...unsignedLeb(memories.length), ...memories.flat()]) };
}

function boundTables(part: Section, { maxElements }: Bounds): Section {
  const reader = new WasmReader(part.body);
  const tables = reader.vector(() => {
    const first = reader.byte();
    const prefix = first === TABLE_WITH_INIT ? [first, reader.byte()] : [];
    const element = readRefType(reader, first === TABLE_WITH_INIT ? reader.byte() : first);
    const { min, max } = readLimits(reader, 'table');
    const bounded = [HAS_MAX, ...unsignedLeb(min), ...unsignedLeb(Math.min(max, maxElements(min)))];
    return [...prefix, ...element, ...bounded, ...(prefix.length ? readConstant(reader) : [])];
  });
  if (tables.length > MAX_TABLES)
    throw new ModuleError(`the module has ${tables.length} tables; at most ${MAX_TABLES} are allowed`);
  return { id: part.id, body: Uint8Array.from([...unsignedLeb(tables.length), ...tables.flat()]) };
}

function readLimits(reader: WasmReader, what: string): { min: number; max: number } {
  const flags = reader.byte();
  if (flags & SHARED) throw new ModuleError(`the module has a shared ${what}; threads are not supported`);
  if (flags & SIXTY_FOUR) throw new ModuleError(`the module has a 64-bit ${what}; build it for wasm32`);
  if (flags > (HAS_MAX | SHARED | SIXTY_FOUR))
    throw new ModuleError(`the module has a ${what} with unknown limit flags`);
  const min = reader.unsigned();
  return { min, max: flags & HAS_MAX ? reader.unsigned() : Number.POSITIVE_INFINITY };
}

function readRefType(reader: WasmReader, first: number): number[] {
  return REF_WITH_HEAP_TYPE.includes(first) ? [first, ...reader.rawNumber()] : [first];
}

/** Initializer of a table's entries: `ref.null`, `ref.func` or `global.get`, then `end`. */
function readConstant(reader: WasmReader): number[] {
  const opcode = reader.byte();
  const operand = reader.rawNumber();
  if (reader.byte() !== END) throw new ModuleError('the module has a table with an unsupported initializer expression');
  return [opcode, ...operand, END];
}
