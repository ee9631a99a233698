import { ModuleError } from '../../abi/guest-module.ts';
import { binaryKind } from '../wasm-binary.ts';
import {
  type Alias,
  type CoreSort,
  readAlias,
  readCoreSort,
  readExternName,
  readSort,
  type Sort,
} from './alias-binary.ts';
import { type Canon, readCanon } from './canon-binary.ts';
import { ComponentReader } from './component-reader.ts';
import { type CoreModuleShape, readCoreModule } from './core-module-shape.ts';
import { readCoreType } from './core-type-binary.ts';
import { type ExternType, readExternType, readTypeDefinition, type TypeDefinition } from './type-binary.ts';

/** Something by its place in the index space of its sort. */
export interface Reference<S = Sort> {
  readonly sort: S;
  readonly index: number;
}

export type Named<T> = readonly (readonly [name: string, item: T])[];

/** What a component consists of, in its order: an index means what was defined before. */
export type Definition =
  | { readonly kind: 'module'; readonly module: CoreModuleShape }
  | { readonly kind: 'core-instantiate'; readonly module: number; readonly args: Named<number> }
  | { readonly kind: 'core-exports'; readonly exports: Named<Reference<CoreSort>> }
  | { readonly kind: 'core-type' }
  | { readonly kind: 'component'; readonly component: ComponentBody }
  | { readonly kind: 'instantiate'; readonly component: number; readonly args: Named<Reference> }
  | { readonly kind: 'exports'; readonly exports: Named<Reference> }
  | { readonly kind: 'alias'; readonly alias: Alias }
  | { readonly kind: 'type'; readonly type: TypeDefinition }
  | { readonly kind: 'canon'; readonly canon: Canon }
  | { readonly kind: 'import'; readonly name: string; readonly type: ExternType }
  | { readonly kind: 'export'; readonly name: string; readonly item: Reference };

export interface ComponentBody {
  readonly definitions: readonly Definition[];
}

const PREAMBLE_BYTES = 8;

/**
 * The admission gate: reads every part of a component that jco would look at, and refuses what is malformed, what is
 * named in a way that could become code, and what has no bound. Nothing else may touch the bytes before.
 */
export function readComponent(bytes: Uint8Array): ComponentBody {
  return readBody(new ComponentReader(bytes), bytes);
}

function readBody(reader: ComponentReader, bytes: Uint8Array): ComponentBody {
  if (binaryKind(bytes) !== 'component')
    throw new ModuleError('malformed component: a nested component has no component header');
  reader.slice(PREAMBLE_BYTES);
  const definitions: Definition[] = [];
  while (!reader.done) {
    const id = reader.byte();
    const part = reader.part(reader.u32());
    if (id === 0) continue; // a custom section: jco does not get it
    for (const definition of readSection(id, part)) definitions.push(definition);
    part.end('section');
  }
  return { definitions };
}

function readSection(id: number, reader: ComponentReader): Definition[] {
  switch (id) {
    case 1: {
      const { reader: inner, bytes } = reader.rest();
      return [{ kind: 'module', module: readCoreModule(inner, bytes) }];
    }
    case 2:
      return reader.list(() => readCoreInstance(reader));
    case 3:
      return reader.list(() => {
        readCoreType(reader);
        return { kind: 'core-type' };
      });
    case 4: {
      const { reader: inner, bytes } = reader.rest();
      return [{ kind: 'component', component: readBody(inner, bytes) }];
    }
    case 5:
      return reader.list(() => readInstance(reader));
    case 6:
      return reader.list(() => ({ kind: 'alias', alias: readAlias(reader) }));
    case 7:
      return reader.list(() => ({ kind: 'type', type: readTypeDefinition(reader) }));
    case 8:
      return reader.list(() => ({ kind: 'canon', canon: readCanon(reader) }));
    case 10:
      return reader.list(() => ({ kind: 'import', name: readExternName(reader), type: readExternType(reader) }));
    case 11:
      return reader.list(() => readExport(reader));
    default:
      throw reader.unknown('section', id);
  }
}

function readCoreInstance(reader: ComponentReader): Definition {
  const form = reader.byte();
  if (form === 0x00) {
    const module = reader.u32();
    const args = reader.list(() => {
      const name = reader.name();
      reader.exactly(0x12, 'core instance argument');
      return [name, reader.u32()] as const;
    });
    return { kind: 'core-instantiate', module, args };
  }
  if (form !== 0x01) throw reader.unknown('core instance', form);
  const exports = reader.list(() => {
    const name = reader.name();
    return [name, { sort: readCoreSort(reader), index: reader.u32() }] as const;
  });
  return { kind: 'core-exports', exports };
}

function readInstance(reader: ComponentReader): Definition {
  const form = reader.byte();
  if (form === 0x00) {
    const component = reader.u32();
    const args = reader.list(() => [reader.name(), readReference(reader)] as const);
    return { kind: 'instantiate', component, args };
  }
  if (form !== 0x01) throw reader.unknown('instance', form);
  return { kind: 'exports', exports: reader.list(() => [readExternName(reader), readReference(reader)] as const) };
}

function readExport(reader: ComponentReader): Definition {
  const name = readExternName(reader);
  const item = readReference(reader);
  reader.option(() => readExternType(reader));
  return { kind: 'export', name, item };
}

const readReference = (reader: ComponentReader): Reference => ({ sort: readSort(reader), index: reader.u32() });
