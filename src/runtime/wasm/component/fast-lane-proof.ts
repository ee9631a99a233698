import { ModuleError } from '../../abi/guest-module.ts';
import { witPackage } from '../../abi/wit.ts';
import { readSections, section, WasmReader } from '../wasm-binary.ts';
import { MAX_SHIM_BYTES } from './component-reader.ts';
import type { Lane } from './component-stages.ts';
import type { CoreExport, CoreImport, CoreModuleShape } from './core-module-shape.ts';
import type { CoreExports, CoreInstance, CoreItem, LinkedComponent } from './link-component.ts';
import type { CoreKind } from './type-binary.ts';

const HOST = `${witPackage.namespace}:${witPackage.name}/`;
/** The form of names in which the canonical ABI's own names are spelled differently too. */
const NEW_NAMES = 'cm32p2|';

/**
 * Proof that the host may resolve the imports of core modules by name (the fast lane). A component may wrap host functions
 * to log, limit or forbid calls; an import `spear:host/mcp@1.0.0` of a core module is then the component's own function.
 * So each such import is followed to its definition, and all of them must be the host's. Works on the linked component
 * alone and runs no code. An unknown structure is never an error: the component then uses jco's glue.
 */
export function chooseLane(component: LinkedComponent): Lane {
  const users = component.coreInstances.filter(({ args }) => [...args.keys()].some(isOurs));
  if (users.length === 0) return { kind: 'glue', reason: 'no core module of the component imports spear:host by name' };
  const proof = new Proof(component);
  for (const user of users) {
    const reason = proof.doubt(user);
    if (reason !== undefined) return { kind: 'glue', reason };
  }
  return { kind: 'fast' };
}

const isOurs = (name: string) => name.startsWith(HOST) || name.startsWith(NEW_NAMES + HOST);

class Proof {
  // Results are memoized: a component may have many instances of many imports.
  readonly #exports = new Map<CoreModuleShape, ReadonlyMap<string, CoreExport>>();
  readonly #imports = new Map<CoreModuleShape, ReadonlyMap<CoreKind, readonly CoreImport[]>>();
  readonly #behind = new Map<CoreInstance, ReadonlyMap<string, CoreItem | undefined> | undefined>();
  readonly #holders: ReadonlyMap<CoreInstance, ReadonlySet<CoreInstance>>;

  constructor(component: LinkedComponent) {
    this.#holders = holdersOfTables(component.coreInstances);
  }

  /** Why an import of a core module may not be the host's; undefined: all are. */
  doubt(user: CoreInstance): string | undefined {
    if ([...user.args.keys()].some((name) => name.startsWith(NEW_NAMES))) {
      return `a core module uses names of the form ${NEW_NAMES}`;
    }
    const memory = this.#surrounding(user, 'memory');
    const realloc = this.#surrounding(user, 'cabi_realloc');
    if (!memory || !realloc) return 'a core module exports no memory or no cabi_realloc by name';
    for (const [name, given] of user.args) {
      if (!isOurs(name)) continue;
      if (given.kind === 'core-instance') return `a core module of the component implements ${name}`;
      for (const [func, item] of given.items) {
        const reason = this.#doubtFunction(name, func, this.#behindShim(item), memory, realloc);
        if (reason !== undefined) return reason;
      }
    }
    return undefined;
  }

  #doubtFunction(
    from: string,
    name: string,
    item: CoreItem | undefined,
    memory: CoreItem,
    realloc: CoreItem,
  ): string | undefined {
    if (item?.kind !== 'lowered') return `the component has its own ${from}#${name}`;
    const { func, options } = item;
    if (func.kind !== 'host') return `the component wraps ${from}#${name}`;
    if (unversioned(func.from) !== unversioned(from) || func.name !== name) {
      return `the component imports ${func.from}#${func.name} as ${from}#${name}`;
    }
    if (options.encoding !== 'utf8') return `${from}#${name} passes strings as ${options.encoding}`;
    if (options.async) return `${from}#${name} is called asynchronously`;
    if (options.memory && !this.#same(options.memory, memory)) return `${from}#${name} uses another memory`;
    if (options.realloc && !this.#same(options.realloc, realloc)) return `${from}#${name} uses another allocator`;
    return undefined;
  }

  /** Item that the guest thread finds under a name: in the module's `env`, else among its exports. */
  #surrounding(user: CoreInstance, name: string): CoreItem | undefined {
    const env = user.args.get('env');
    const wanted = this.#imported(user.module, name === 'memory' ? 'memory' : 'core-func');
    const imported = env && wanted.some((one) => one.module === 'env' && one.name === name);
    return this.#provided(imported ? env : user, name);
  }

  #provided(from: CoreInstance | CoreExports, name: string): CoreItem | undefined {
    if (from.kind === 'core-exports') return from.items.get(name);
    const own = this.#exported(from.module, name);
    return own && { kind: 'of-instance', instance: from, sort: own.kind, name };
  }

  #exported(module: CoreModuleShape, name: string): CoreExport | undefined {
    const known = this.#exports.get(module) ?? new Map(module.exports.map((own) => [own.name, own]));
    this.#exports.set(module, known);
    return known.get(name);
  }

  #imported(module: CoreModuleShape, kind: CoreKind): readonly CoreImport[] {
    const known = this.#imports.get(module) ?? Map.groupBy(module.imports, (wanted) => wanted.kind);
    this.#imports.set(module, known);
    return known.get(kind) ?? [];
  }

  #same(one: CoreItem, other: CoreItem): boolean {
    const [left, right] = [this.#origin(one), this.#origin(other)];
    if (left?.kind !== 'of-instance' || right?.kind !== 'of-instance') return false;
    return left.instance === right.instance && left.name === right.name;
  }

  /** Definition of an item that modules only re-export. */
  #origin(item: CoreItem): CoreItem | undefined {
    if (item.kind !== 'of-instance') return item;
    const own = this.#exported(item.instance.module, item.name);
    const passed = own && this.#imported(item.instance.module, own.kind)[own.index];
    if (!passed) return item;
    const from = item.instance.args.get(passed.module);
    const given = from && this.#provided(from, passed.name);
    return given && this.#origin(given);
  }

  /** Target of a shim function, if shim and fixup match exactly; any other item unchanged. */
  #behindShim(item: CoreItem): CoreItem | undefined {
    if (item.kind !== 'of-instance') return item;
    const shim = item.instance;
    if (!this.#behind.has(shim)) this.#behind.set(shim, this.#targets(shim));
    const targets = this.#behind.get(shim);
    return targets ? targets.get(item.name) : item;
  }

  /** Slots by function name of a shim; undefined: not a shim. */
  #targets(shim: CoreInstance): ReadonlyMap<string, CoreItem | undefined> | undefined {
    const slots = shimSlots(shim.module);
    if (!slots) return undefined;
    const filled = this.#filled(shim);
    return new Map([...slots].map(([name, slot]) => [name, filled[slot]]));
  }

  /** Content of a shim's table, if one fixup module fills it and no other module can reach it. */
  #filled(shim: CoreInstance): readonly (CoreItem | undefined)[] {
    const [fixup, ...others] = this.#holders.get(shim) ?? [];
    if (!fixup || others.length > 0 || fixup.module.exports.length > 0) return [];
    const [table, ...again] = this.#imported(fixup.module, 'table').flatMap(({ module, name }, index) => {
      const from = fixup.args.get(module);
      const item = from && this.#provided(from, name);
      return item?.kind === 'of-instance' && item.instance === shim && item.name === SHIM_TABLE ? [index] : [];
    });
    // Imported twice it is one table under two numbers, and what is filled in by the second stands there.
    if (table === undefined || again.length > 0) return [];
    const functions = this.#imported(fixup.module, 'core-func');
    return (fixupSlots(fixup.module, table) ?? []).map((index) => {
      const wanted = functions[index];
      const from = wanted && fixup.args.get(wanted.module);
      return from && this.#provided(from, wanted.name);
    });
  }
}

/** For each core instance: the instances that can reach its exported table. */
function holdersOfTables(users: readonly CoreInstance[]): ReadonlyMap<CoreInstance, ReadonlySet<CoreInstance>> {
  const passedOn = new Map<CoreExports, readonly CoreInstance[]>();
  const reachable = (given: CoreInstance | CoreExports): readonly CoreInstance[] => {
    if (given.kind === 'core-instance') return [given];
    const known = passedOn.get(given) ?? [...new Set([...given.items.values()].flatMap(ownerOfShimTable))];
    passedOn.set(given, known);
    return known;
  };
  const holders = new Map<CoreInstance, Set<CoreInstance>>();
  for (const user of users) {
    for (const owner of [...user.args.values()].flatMap(reachable)) {
      holders.set(owner, (holders.get(owner) ?? new Set()).add(user));
    }
  }
  return holders;
}

const ownerOfShimTable = (item: CoreItem): readonly CoreInstance[] =>
  item.kind === 'of-instance' && item.name === SHIM_TABLE ? [item.instance] : [];

const unversioned = (name: string) => name.replace(/@.*$/, '');

// wit-component links a component in a circle: the lowered imports need the memory of the main module, which needs the
// imports. So the main module gets functions of a shim, each a jump through a table, and a fixup module fills the table
// when the memory is there. Here both are recognized by all of their code: anything else in them, and they are not.

/** Export name of the table that a shim's functions use. */
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

/** Whether all functions only call others, without locals: they cannot change a table. */
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

/** A truncated module is not a shim; its validity is checked elsewhere. */
function recognized<T>(read: () => T | undefined): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof ModuleError) return undefined;
    throw error;
  }
}
