import { ModuleError } from '../../abi/guest-module.ts';
import { binaryKind, unsignedLeb, WasmReader } from '../wasm-binary.ts';
import { ComponentReader } from './component-reader.ts';
import { type CoreModuleShape, readCoreModule } from './core-module-shape.ts';
import {
  type Alias,
  type CoreSort,
  type ExternType,
  readAlias,
  readCoreSort,
  readCoreType,
  readExternName,
  readExternType,
  readResultList,
  readSort,
  readTypeDefinition,
  type Sort,
  type TypeDefinition,
} from './type-binary.ts';

/** Reference: an index in the index space of a sort. */
export interface Reference<S = Sort> {
  readonly sort: S;
  readonly index: number;
}

export type Named<T> = readonly (readonly [name: string, item: T])[];

/** Definitions of a component in order; an index refers to earlier definitions. */
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
 * Admission gate: reads every part of a component that jco would read, and rejects malformed parts, names that could
 * become code, and unbounded structures. No other code may read the bytes before.
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

export interface CanonOptions {
  readonly encoding: 'utf8' | 'utf16' | 'latin1+utf16';
  readonly memory: number | undefined;
  readonly realloc: number | undefined;
  /** A lift or lowering of the asynchronous form of the canonical ABI. */
  readonly async: boolean;
}

/** Canonical ABI options of a lift or lowering. */
export type Canon =
  | { readonly form: 'lift'; readonly coreFunc: number; readonly options: CanonOptions; readonly type: number }
  | { readonly form: 'lower'; readonly func: number; readonly options: CanonOptions }
  | { readonly form: 'builtin'; readonly opcode: number };

/** What follows the opcode of a builtin: of resources, tasks, streams and futures; threads are not among them. */
type Operand = 'index' | 'options' | 'flag' | 'results' | 'i32';
const builtins: Readonly<Record<number, readonly Operand[]>> = {
  2: ['index'], // resource.new
  3: ['index'], // resource.drop
  4: ['index'], // resource.rep
  5: [], // task.cancel
  6: ['flag'], // subtask.cancel
  8: [], // backpressure.set
  9: ['results', 'options'], // task.return
  10: ['i32', 'index'], // context.get
  11: ['i32', 'index'], // context.set
  12: ['flag'], // thread.yield
  13: [], // subtask.drop
  14: ['index'], // stream.new
  15: ['index', 'options'], // stream.read
  16: ['index', 'options'], // stream.write
  17: ['index', 'flag'], // stream.cancel-read
  18: ['index', 'flag'], // stream.cancel-write
  19: ['index'], // stream.drop-readable
  20: ['index'], // stream.drop-writable
  21: ['index'], // future.new
  22: ['index', 'options'], // future.read
  23: ['index', 'options'], // future.write
  24: ['index', 'flag'], // future.cancel-read
  25: ['index', 'flag'], // future.cancel-write
  26: ['index'], // future.drop-readable
  27: ['index'], // future.drop-writable
  28: ['options'], // error-context.new
  29: ['options'], // error-context.debug-message
  30: [], // error-context.drop
  31: [], // waitable-set.new
  32: ['flag', 'index'], // waitable-set.wait
  33: ['flag', 'index'], // waitable-set.poll
  34: [], // waitable-set.drop
  35: [], // waitable.join
  36: [], // backpressure.inc
  37: [], // backpressure.dec
};

export function readCanon(reader: ComponentReader): Canon {
  const opcode = reader.byte();
  if (opcode === 0x00) {
    reader.exactly(0x00, 'lift');
    return { form: 'lift', coreFunc: reader.u32(), options: readOptions(reader), type: reader.u32() };
  }
  if (opcode === 0x01) {
    reader.exactly(0x00, 'lowering');
    return { form: 'lower', func: reader.u32(), options: readOptions(reader) };
  }
  const operands = builtins[opcode];
  if (!operands) throw reader.unknown('component model builtin', opcode);
  for (const operand of operands) readOperand(reader, operand);
  return { form: 'builtin', opcode };
}

function readOperand(reader: ComponentReader, operand: Operand): void {
  if (operand === 'index') reader.u32();
  else if (operand === 'options') readOptions(reader);
  else if (operand === 'results') readResultList(reader);
  else if (operand === 'i32') reader.exactly(0x7f, 'context value type');
  else if (reader.byte() > 1) throw reader.unknown('flag', 2);
}

const encodings = ['utf8', 'utf16', 'latin1+utf16'] as const;

function readOptions(reader: ComponentReader): CanonOptions {
  let encoding: CanonOptions['encoding'] = 'utf8';
  let memory: number | undefined;
  let realloc: number | undefined;
  let async = false;
  reader.list(() => {
    const option = reader.byte();
    const named = encodings[option];
    if (named) encoding = named;
    else if (option === 0x03) memory = reader.u32();
    else if (option === 0x04) realloc = reader.u32();
    else if (option === 0x05) reader.u32();
    else if (option === 0x06) async = true;
    else if (option === 0x07) reader.u32();
    else throw reader.unknown('canonical ABI option', option);
  });
  return { encoding, memory, realloc, async };
}

const CUSTOM = 0;
const COMPONENT = 4;

/**
 * Removes the custom sections of a component, which the gate does not read, so jco does not get them either. Custom
 * sections of core modules stay, for stack traces.
 *
 * Precondition: the component was admitted.
 */
export function withoutCustomSections(component: Uint8Array): Uint8Array {
  const reader = new WasmReader(component);
  const parts: Uint8Array[] = [reader.slice(PREAMBLE_BYTES)];
  while (!reader.done) {
    const id = reader.byte();
    const body = reader.slice(reader.unsigned());
    if (id === CUSTOM) continue;
    const kept = id === COMPONENT ? withoutCustomSections(body) : body;
    parts.push(Uint8Array.from([id, ...unsignedLeb(kept.byteLength)]), kept);
  }
  return Buffer.concat(parts);
}
