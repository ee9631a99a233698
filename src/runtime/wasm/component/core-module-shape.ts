import { ModuleError } from '../../abi/guest-module.ts';
import { importTypes } from '../import-types.ts';
import { binaryKind, REF_WITH_HEAP_TYPE } from '../wasm-binary.ts';
import { type ComponentReader, MAX_TYPE_SECTION_BYTES } from './component-reader.ts';
import {
  type CoreExtern,
  type CoreKind,
  type CoreLimits,
  coreKinds,
  readCoreExternType,
  readCoreLimits,
} from './type-binary.ts';

export interface CoreImport extends CoreExtern {
  readonly module: string;
  readonly name: string;
}

export interface CoreExport {
  readonly name: string;
  readonly kind: CoreKind;
  readonly index: number;
}

/** Interface of a core module inside a component. */
export interface CoreModuleShape {
  readonly bytes: Uint8Array;
  readonly imports: readonly CoreImport[];
  readonly exports: readonly CoreExport[];
  readonly memories: readonly CoreLimits[];
  readonly tables: readonly CoreLimits[];
}

const PREAMBLE_BYTES = 8;
const LAST_SECTION = 13; // the tags of exceptions
const sections = { type: 1, import: 2, table: 4, memory: 5, export: 7 } as const;

/** Reads and admits a core module, with the same rules as for a core module guest. */
export function readCoreModule(reader: ComponentReader, bytes: Uint8Array): CoreModuleShape {
  if (binaryKind(bytes) !== 'core') throw new ModuleError('malformed component: a core module has no module header');
  reader.slice(PREAMBLE_BYTES);
  const imports: CoreImport[] = [];
  const exports: CoreExport[] = [];
  const memories: CoreLimits[] = [];
  const tables: CoreLimits[] = [];
  while (!reader.done) {
    const id = reader.byte();
    const part = reader.part(reader.u32());
    if (id > LAST_SECTION) throw reader.unknown('core module section', id);
    if (id === sections.type && part.left > MAX_TYPE_SECTION_BYTES) {
      throw new ModuleError(
        `a core module of the component has ${part.left} bytes of types, at most ${MAX_TYPE_SECTION_BYTES} are allowed`,
      );
    }
    if (id === sections.import) part.list(() => imports.push(readImport(part)));
    else if (id === sections.export) part.list(() => exports.push(readExport(part)));
    else if (id === sections.memory) part.list(() => memories.push(readCoreLimits(part, 'memory')));
    else if (id === sections.table) part.list(() => tables.push(readTable(part)));
    else continue;
    part.end('section');
  }
  const imported = imports.filter(({ kind }) => kind === 'memory').length;
  if (imported + memories.length > 1)
    throw new ModuleError('a core module of the component has several memories; only one is supported');
  importTypes(bytes); // refuses struct and array types
  return { bytes, imports, exports, memories, tables };
}

function readImport(reader: ComponentReader): CoreImport {
  return { module: reader.name(), name: reader.name(), ...readCoreExternType(reader) };
}

function readExport(reader: ComponentReader): CoreExport {
  const name = reader.name();
  const number = reader.byte();
  const kind = coreKinds[number];
  if (!kind) throw reader.unknown('export kind', number);
  return { name, kind, index: reader.u32() };
}

const TABLE_WITH_INIT = 0x40;
const END = 0x0b;

function readTable(reader: ComponentReader): CoreLimits {
  const first = reader.byte();
  if (first !== TABLE_WITH_INIT) {
    if (REF_WITH_HEAP_TYPE.includes(first)) reader.rawNumber();
    return readCoreLimits(reader, 'table');
  }
  reader.exactly(0x00, 'table');
  if (REF_WITH_HEAP_TYPE.includes(reader.byte())) reader.rawNumber();
  const limits = readCoreLimits(reader, 'table');
  reader.byte();
  reader.rawNumber();
  reader.exactly(END, 'table initializer');
  return limits;
}
