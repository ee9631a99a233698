import { ModuleError } from '../../abi/guest-module.ts';
import { REF_WITH_HEAP_TYPE } from '../wasm-binary.ts';
import type { ComponentReader } from './component-reader.ts';

const FUNCTION = 0x60;
const MODULE = 0x50;

/** The kinds of what a core module imports and exports, by their number. */
export const coreKinds = ['core-func', 'table', 'memory', 'global', 'tag'] as const;
export type CoreKind = (typeof coreKinds)[number];

/** A core type of a component: it is checked and passed over. */
export function readCoreType(reader: ComponentReader): void {
  const form = reader.byte();
  if (form === FUNCTION) {
    reader.list(() => readCoreValueType(reader));
    reader.list(() => readCoreValueType(reader));
  } else if (form === MODULE) {
    reader.nested(() => reader.list(() => readModuleDeclaration(reader)));
  } else {
    throw new ModuleError(
      'the component has struct or array types (wasm-gc), whose memory cannot be limited; build it without wasm-gc',
    );
  }
}

function readModuleDeclaration(reader: ComponentReader): void {
  const kind = reader.byte();
  if (kind === 0x00) {
    reader.name();
    reader.name();
    readCoreExternType(reader);
  } else if (kind === 0x01) {
    readCoreType(reader);
  } else if (kind === 0x02) {
    reader.exactly(0x10, 'core alias');
    reader.exactly(0x01, 'core alias');
    reader.u32();
    reader.u32();
  } else if (kind === 0x03) {
    reader.name();
    readCoreExternType(reader);
  } else {
    throw reader.unknown('declaration', kind);
  }
}

export interface CoreExtern {
  readonly kind: CoreKind;
  /** Of a function: the index of its type. */
  readonly type: number;
}

export function readCoreExternType(reader: ComponentReader): CoreExtern {
  const number = reader.byte();
  const kind = coreKinds[number];
  if (!kind) throw reader.unknown('import kind', number);
  let type = -1;
  if (kind === 'core-func') type = reader.u32();
  else if (kind === 'table') {
    readCoreValueType(reader);
    readCoreLimits(reader, 'table');
  } else if (kind === 'memory') readCoreLimits(reader, 'memory');
  else if (kind === 'global') {
    readCoreValueType(reader);
    reader.byte();
  } else {
    reader.exactly(0x00, 'tag');
    reader.u32();
  }
  return { kind, type };
}

function readCoreValueType(reader: ComponentReader): void {
  const first = reader.byte();
  if (first < 0x40 || first > 0x7f) throw reader.unknown('value type', first);
  if (REF_WITH_HEAP_TYPE.includes(first)) reader.rawNumber();
}

export interface CoreLimits {
  readonly min: number;
  readonly max: number;
}

const HAS_MAX = 0x01;
const SHARED = 0x02;
const SIXTY_FOUR = 0x04;

export function readCoreLimits(reader: ComponentReader, what: string): CoreLimits {
  const flags = reader.byte();
  if (flags & SHARED) throw new ModuleError(`the component has a shared ${what}; threads are not supported`);
  if (flags & SIXTY_FOUR) throw new ModuleError(`the component has a 64-bit ${what}; build it for wasm32`);
  if (flags > HAS_MAX) throw new ModuleError(`the component has a ${what} with unknown limit flags`);
  const min = reader.u32();
  return { min, max: flags & HAS_MAX ? reader.u32() : Number.POSITIVE_INFINITY };
}
