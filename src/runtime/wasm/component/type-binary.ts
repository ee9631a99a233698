import { type Alias, readAlias, readExternName } from './alias-binary.ts';
import type { ComponentReader } from './component-reader.ts';
import { readCoreType } from './core-type-binary.ts';

/** A primitive by its name, or a type by its index in the scope it stands in. */
export type ValueType = string | number;

export interface FunctionTypeDefinition {
  readonly form: 'func';
  readonly async: boolean;
  readonly params: readonly (readonly [name: string, type: ValueType])[];
  readonly result: ValueType | undefined;
}

/** Types as they are written: what they name is looked up by whoever knows the scope. */
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
  /** Known by the name it was imported or exported under. */
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
