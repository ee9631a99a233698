import { ModuleError } from '../../abi/guest-module.ts';
import { REF_WITH_HEAP_TYPE } from '../wasm-binary.ts';
import type { ComponentReader } from './component-reader.ts';

/*
 * Decoder of the type, core type and alias sections of a component. Types keep their indices; type-scope.ts resolves them.
 * Every part is decoded, with the budgets of component-reader.ts, because jco would decode it too.
 */

/** A primitive by name, or a type by its index in the enclosing scope. */
export type ValueType = string | number;

export interface FunctionTypeDefinition {
  readonly form: 'func';
  readonly async: boolean;
  readonly params: readonly (readonly [name: string, type: ValueType])[];
  readonly result: ValueType | undefined;
}

/** Types as encoded; indices are resolved by type-scope.ts. */
export type TypeDefinition =
  | FunctionTypeDefinition
  | { readonly form: 'primitive'; readonly name: string }
  | { readonly form: 'record'; readonly fields: readonly (readonly [label: string, type: ValueType])[] }
  | { readonly form: 'variant'; readonly cases: readonly (readonly [label: string, type: ValueType | undefined])[] }
  | { readonly form: 'list' | 'option'; readonly of: ValueType }
  | { readonly form: 'tuple'; readonly of: readonly ValueType[] }
  | { readonly form: 'flags' | 'enum'; readonly labels: readonly string[] }
  | { readonly form: 'result'; readonly ok: ValueType | undefined; readonly error: ValueType | undefined }
  | { readonly form: 'own' | 'borrow'; readonly resource: number }
  /** Identified by its import or export name. */
  | { readonly form: 'resource'; readonly name?: string }
  | { readonly form: 'other'; readonly name: string }
  | { readonly form: 'component' | 'instance'; readonly declarations: readonly Declaration[] };

export type ExternType =
  | { readonly sort: 'module' | 'func' | 'component' | 'instance'; readonly type: number }
  | { readonly sort: 'type'; readonly equals: number | 'resource' }
  | { readonly sort: 'value' };

export type Declaration =
  | { readonly kind: 'core-type' }
  | { readonly kind: 'type'; readonly type: TypeDefinition }
  | { readonly kind: 'alias'; readonly alias: Alias }
  | { readonly kind: 'import' | 'export'; readonly name: string; readonly type: ExternType };

const primitives: Readonly<Record<number, string>> = {
  127: 'bool',
  126: 's8',
  125: 'u8',
  124: 's16',
  123: 'u16',
  122: 's32',
  121: 'u32',
  120: 's64',
  119: 'u64',
  118: 'f32',
  117: 'f64',
  116: 'char',
  115: 'string',
  100: 'error-context',
};

export function readTypeDefinition(reader: ComponentReader): TypeDefinition {
  const opcode = reader.byte();
  const primitive = primitives[opcode];
  if (primitive) return { form: 'primitive', name: primitive };
  const value = () => readValueType(reader);
  switch (opcode) {
    case 0x72:
      return { form: 'record', fields: reader.list(() => [reader.name(), value()] as const) };
    case 0x71:
      return { form: 'variant', cases: reader.list(() => readCase(reader)) };
    case 0x70:
      return { form: 'list', of: value() };
    case 0x6f:
      return { form: 'tuple', of: reader.list(value) };
    case 0x6e:
      return { form: 'flags', labels: reader.list(() => reader.name()) };
    case 0x6d:
      return { form: 'enum', labels: reader.list(() => reader.name()) };
    case 0x6b:
      return { form: 'option', of: value() };
    case 0x6a:
      return { form: 'result', ok: reader.option(value), error: reader.option(value) };
    case 0x69:
      return { form: 'own', resource: reader.u32() };
    case 0x68:
      return { form: 'borrow', resource: reader.u32() };
    case 0x67:
      value();
      reader.u32();
      return { form: 'other', name: 'a fixed-length list' };
    case 0x66:
    case 0x65:
      reader.option(value);
      return { form: 'other', name: opcode === 0x66 ? 'stream' : 'future' };
    case 0x43:
    case 0x40:
      return readFunction(reader, opcode === 0x43);
    case 0x42:
      return { form: 'instance', declarations: readDeclarations(reader, false) };
    case 0x41:
      return { form: 'component', declarations: readDeclarations(reader, true) };
    case 0x3f:
      reader.exactly(0x7f, 'resource representation');
      reader.option(() => reader.u32());
      return { form: 'resource' };
    default:
      throw reader.unknown('type', opcode);
  }
}

function readValueType(reader: ComponentReader): ValueType {
  // Primitives are the negative numbers of one byte; a type's index is a positive one of 33 bits.
  const first = reader.peek();
  if (first >= 0x40 && first < 0x80) {
    const primitive = primitives[reader.byte()];
    if (primitive === undefined) throw reader.unknown('value type', first);
    return primitive;
  }
  return reader.typeIndex();
}

function readCase(reader: ComponentReader): readonly [string, ValueType | undefined] {
  const label = reader.name();
  const type = reader.option(() => readValueType(reader));
  reader.exactly(0x00, 'case refinement');
  return [label, type];
}

function readFunction(reader: ComponentReader, async: boolean): FunctionTypeDefinition {
  const params = reader.list(() => [reader.name(), readValueType(reader)] as const);
  return { form: 'func', async, params, result: readResultList(reader) };
}

export function readResultList(reader: ComponentReader): ValueType | undefined {
  const form = reader.byte();
  if (form === 0x00) return readValueType(reader);
  if (form !== 0x01) throw reader.unknown('result list', form);
  reader.exactly(0x00, 'result list');
  return undefined;
}

function readDeclarations(reader: ComponentReader, withImports: boolean): Declaration[] {
  return reader.nested(() => reader.list(() => readDeclaration(reader, withImports)));
}

function readDeclaration(reader: ComponentReader, withImports: boolean): Declaration {
  const kind = reader.byte();
  switch (kind) {
    case 0x00:
      readCoreType(reader);
      return { kind: 'core-type' };
    case 0x01:
      return { kind: 'type', type: readTypeDefinition(reader) };
    case 0x02:
      return { kind: 'alias', alias: readAlias(reader) };
    case 0x04:
      return { kind: 'export', name: readExternName(reader), type: readExternType(reader) };
  }
  if (kind === 0x03 && withImports) {
    return { kind: 'import', name: readExternName(reader), type: readExternType(reader) };
  }
  throw reader.unknown('declaration', kind);
}

export function readExternType(reader: ComponentReader): ExternType {
  const sort = reader.byte();
  switch (sort) {
    case 0x00:
      reader.exactly(0x11, 'core sort');
      return { sort: 'module', type: reader.u32() };
    case 0x01:
      return { sort: 'func', type: reader.u32() };
    case 0x02:
      return readValueBound(reader);
    case 0x03:
      return readTypeBound(reader);
    case 0x04:
      return { sort: 'component', type: reader.u32() };
    case 0x05:
      return { sort: 'instance', type: reader.u32() };
    default:
      throw reader.unknown('sort', sort);
  }
}

function readValueBound(reader: ComponentReader): ExternType {
  const bound = reader.byte();
  if (bound === 0x00) reader.u32();
  else if (bound === 0x01) readValueType(reader);
  else throw reader.unknown('value bound', bound);
  return { sort: 'value' };
}

function readTypeBound(reader: ComponentReader): ExternType {
  const bound = reader.byte();
  if (bound === 0x00) return { sort: 'type', equals: reader.u32() };
  if (bound === 0x01) return { sort: 'type', equals: 'resource' };
  throw reader.unknown('type bound', bound);
}

const FUNCTION = 0x60;
const MODULE = 0x50;

/** Kinds of core imports and exports, by number. */
export const coreKinds = ['core-func', 'table', 'memory', 'global', 'tag'] as const;
export type CoreKind = (typeof coreKinds)[number];

/** Core type of a component: checked and skipped. */
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
  /** Type index of a function. */
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

export type CoreSort = 'core-func' | 'table' | 'memory' | 'global' | 'tag' | 'core-type' | 'module' | 'core-instance';
export type ComponentSort = 'func' | 'value' | 'type' | 'component' | 'instance';
export type Sort = CoreSort | ComponentSort;

export type Alias =
  | { readonly from: 'export' | 'core-export'; readonly sort: Sort; readonly instance: number; readonly name: string }
  | { readonly from: 'outer'; readonly sort: Sort; readonly count: number; readonly index: number };

const coreSorts: Readonly<Record<number, CoreSort>> = {
  0: 'core-func',
  1: 'table',
  2: 'memory',
  3: 'global',
  4: 'tag',
  16: 'core-type',
  17: 'module',
  18: 'core-instance',
};
const componentSorts: Readonly<Record<number, ComponentSort>> = {
  1: 'func',
  2: 'value',
  3: 'type',
  4: 'component',
  5: 'instance',
};

export function readCoreSort(reader: ComponentReader): CoreSort {
  const byte = reader.byte();
  const sort = coreSorts[byte];
  if (!sort) throw reader.unknown('core sort', byte);
  return sort;
}

export function readSort(reader: ComponentReader): Sort {
  const byte = reader.byte();
  if (byte === 0) return readCoreSort(reader);
  const sort = componentSorts[byte];
  if (!sort) throw reader.unknown('sort', byte);
  return sort;
}

export function readAlias(reader: ComponentReader): Alias {
  const sort = readSort(reader);
  const target = reader.byte();
  if (target === 0) return { from: 'export', sort, instance: reader.u32(), name: reader.name() };
  if (target === 1) return { from: 'core-export', sort, instance: reader.u32(), name: reader.name() };
  if (target === 2) return { from: 'outer', sort, count: reader.u32(), index: reader.u32() };
  throw reader.unknown('alias', target);
}

/** The name of an import or export of a component. */
export function readExternName(reader: ComponentReader): string {
  const form = reader.byte();
  if (form > 1) throw reader.unknown('name form', form);
  return reader.name();
}
