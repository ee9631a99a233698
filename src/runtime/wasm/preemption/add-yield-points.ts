import { ModuleError } from '../../abi/guest-module.ts';
import { PREEMPTION_MODULE, preemptionImports, START_EXPORT, type Turns } from '../../port/preemption.ts';
import { readTypes } from '../import-types.ts';
import { readSections, type Section, section, unsignedLeb, WasmReader, writeSections } from '../wasm-binary.ts';
import {
  ByteList,
  branchHints,
  nameBytes,
  type Renumber,
  readImports,
  renumberNames,
  renumberSection,
  walkElements,
  walkExports,
  walkGlobals,
  walkTables,
} from './sections.ts';
import { codeWithYieldPoints } from './yield-code.ts';

const FUNCTION = 0x00;
const MEMORY = 0x02;
const SHARED_WITH_MAX = 0x03;
const HAS_MAX = 0x01;
/** `() -> ()` */
const NO_VALUES = [0x60, 0x00, 0x00];

/** Order of sections in a module, which is not the order of their ids. */
const order: readonly number[] = [1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11];

export interface YieldingModule extends Turns {
  readonly bytes: Uint8Array;
}

/**
 * Adds yield points for cooperative preemption to a module: each loop and each chain of calls checks the yield flag and
 * calls an import if it is set. Also, the module imports its memory, and its start section becomes an export if `starts`
 * is set (not if another party instantiates the module). Nothing else changes.
 *
 * The output bytes for a given input are part of the keys of compile caches.
 *
 * Precondition: bound-memory.ts rewrote the module. Returns null for a module without code.
 * @throws ModuleError for an invalid module, or one with unknown sections; such a module must run unchanged
 */
export function addYieldPoints(bytes: Uint8Array, starts: boolean): YieldingModule | null {
  // The pass adds a type, two functions and a memory. An index past the end of the module's own would name one of
  // them: the host's control page, for instance. The engine would then accept the rewritten module.
  if (!WebAssembly.validate(bytes as Uint8Array<ArrayBuffer>)) throw new ModuleError('the module is invalid');
  const sections = new Map<number, Uint8Array>();
  const names: Uint8Array[] = [];
  for (const { id, body } of readSections(bytes)) {
    if (id === section.custom) names.push(body);
    else if (!order.includes(id)) throw new ModuleError(`the module has a section of unknown kind ${id}`);
    else if (sections.has(id)) throw new ModuleError('malformed module: duplicate section');
    else sections.set(id, body);
  }
  const code = sections.get(section.code);
  if (code === undefined) return null;

  const types = sections.get(section.type);
  const imports = readImports(sections.get(section.import));
  const tick = imports.functions;
  const renumber: Renumber = (index) => (index < tick ? index : index + 1);
  const memory = ownMemory(sections.get(section.memory), imports.memories);
  const type = types === undefined ? 0 : readTypes(new WasmReader(types)).length;
  const functions = new WasmReader(sections.get(section.function) ?? Uint8Array.of(0)).unsigned();
  const numbers = {
    renumber,
    tick,
    yieldIndex: tick + 1 + functions,
    turns: imports.memories + (memory === null ? 0 : 1),
  };

  const start = starts ? sections.get(section.start) : undefined;
  sections.set(section.type, appended(types, NO_VALUES));
  sections.set(section.import, withImports(imports, memory, type));
  sections.set(section.function, appended(sections.get(section.function), unsignedLeb(type)));
  sections.delete(section.memory);
  change(sections, section.table, (body) => renumberSection(body, walkTables, renumber));
  change(sections, section.global, (body) => renumberSection(body, walkGlobals, renumber));
  change(sections, section.export, (body) => renumberSection(body, walkExports, renumber));
  change(sections, section.start, (body) => Uint8Array.from(unsignedLeb(renumber(new WasmReader(body).unsigned()))));
  change(sections, section.element, (body) => renumberSection(body, walkElements, renumber));
  const turned = codeWithYieldPoints(code, numbers);
  sections.set(section.code, turned.body);
  if (start !== undefined) exportStart(sections, renumber(new WasmReader(start).unsigned()));

  const named = names.map((body) => renumberNames(body, renumber)).find((body) => body !== null);
  const written = order.flatMap((id): Section[] => {
    const body = sections.get(id);
    if (body === undefined) return [];
    // Engines ignore branch hints after the code section.
    const hints = id === section.code ? [{ id: section.custom, body: branchHints(turned.unlikely) }] : [];
    return [...hints, { id, body }];
  });
  if (named !== undefined && named !== null) written.push({ id: section.custom, body: named });
  return { bytes: writeSections(written), memory, hasStart: start !== undefined };
}

function change(sections: Map<number, Uint8Array>, id: number, how: (body: Uint8Array) => Uint8Array): void {
  const body = sections.get(id);
  if (body !== undefined) sections.set(id, how(body));
}

/** Appends an entry to a list. */
function appended(list: Uint8Array | undefined, entry: readonly number[]): Uint8Array {
  if (list === undefined) return Uint8Array.from([1, ...entry]);
  const reader = new WasmReader(list);
  const count = reader.unsigned();
  return new ByteList()
    .number(count + 1)
    .add(list.subarray(reader.offset))
    .add(entry)
    .bytes();
}

function ownMemory(body: Uint8Array | undefined, imported: number): Turns['memory'] {
  if (body === undefined) return null;
  const reader = new WasmReader(body);
  const count = reader.unsigned();
  if (count === 0) return null;
  if (count + imported > 1) throw new ModuleError('the module has several memories');
  if (reader.byte() !== HAS_MAX) throw new ModuleError('the module has a memory with unknown limit flags');
  return { initial: reader.unsigned(), maximum: reader.unsigned() };
}

/** Appends the imports of the pass. The module's own memory comes first, so that it keeps its index. */
function withImports(
  { count, list }: ReturnType<typeof readImports>,
  memory: Turns['memory'],
  type: number,
): Uint8Array {
  const entry = (name: string, ...what: number[]) => [...nameBytes(PREEMPTION_MODULE), ...nameBytes(name), ...what];
  const all = new ByteList().number(count + (memory === null ? 2 : 3)).add(list);
  if (memory !== null) {
    const { initial, maximum } = memory;
    all.add(entry(preemptionImports.memory, MEMORY, HAS_MAX, ...unsignedLeb(initial), ...unsignedLeb(maximum)));
  }
  return all
    .add(entry(preemptionImports.turns, MEMORY, SHARED_WITH_MAX, 1, 1))
    .add(entry(preemptionImports.tick, FUNCTION, ...unsignedLeb(type)))
    .bytes();
}

function exportStart(sections: Map<number, Uint8Array>, index: number): void {
  sections.delete(section.start);
  const entry = [...nameBytes(START_EXPORT), FUNCTION, ...unsignedLeb(index)];
  sections.set(section.export, appended(sections.get(section.export), entry));
}
