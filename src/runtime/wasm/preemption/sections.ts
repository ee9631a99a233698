import { ModuleError } from '../../abi/guest-module.ts';
import { PREEMPTION_MODULE } from '../../port/preemption.ts';
import { type Instruction, op, readInstruction, skipType } from '../instructions.ts';
import { unsignedLeb, WasmReader } from '../wasm-binary.ts';

/*
 * Sections of a module for the preemption pass: readers and writers that renumber function indices, the name section, and
 * branch hints. Bytes that the pass does not change are copied, so its output is the same for the same input. The module
 * was validated by the engine before; an unknown structure is a ModuleError and the module then runs without the pass.
 */

/** Maps the index of a function to its index after the pass. */
export type Renumber = (index: number) => number;

const namesFunction = (opcode: number): boolean =>
  opcode === op.call || opcode === op.returnCall || opcode === op.refFunc;

/** Copies what a reader reads, with renumbered function indices. */
export class RenumberedCopy {
  readonly out = new ByteList();
  readonly #source: Uint8Array;
  readonly #reader: WasmReader;
  readonly #renumber: Renumber;
  #copied = 0;
  /** Original index of the last function that was referenced. */
  named = -1;

  constructor(source: Uint8Array, reader: WasmReader, renumber: Renumber) {
    this.#source = source;
    this.#reader = reader;
    this.#renumber = renumber;
    this.#copied = reader.offset;
  }

  instruction(): Instruction {
    const instruction = readInstruction(this.#reader);
    if (namesFunction(instruction.opcode)) this.#replaceNumber(instruction.numberAt);
    return instruction;
  }

  /** Reads a function index. */
  functionIndex(): void {
    const at = this.#reader.offset;
    this.#reader.unsigned();
    this.#replaceNumber(at);
  }

  /** Reads a constant expression to its end. */
  expression(): void {
    while (this.instruction().opcode !== op.end);
  }

  /** Copies everything that was read so far. */
  flush(): void {
    this.out.add(this.#source.subarray(this.#copied, this.#reader.offset));
    this.#copied = this.#reader.offset;
  }

  #replaceNumber(at: number): void {
    const end = this.#reader.offset;
    this.named = new WasmReader(this.#source.subarray(at, end)).unsigned();
    this.out.add(this.#source.subarray(this.#copied, at)).number(this.#renumber(this.named));
    this.#copied = end;
  }
}

type Walk = (reader: WasmReader, copy: RenumberedCopy) => void;

/** A copy of a section with renumbered function indices. */
export function renumberSection(body: Uint8Array, walk: Walk, renumber: Renumber): Uint8Array {
  const reader = new WasmReader(body);
  const copy = new RenumberedCopy(body, reader, renumber);
  walk(reader, copy);
  if (!reader.done) throw new ModuleError('malformed module: extra bytes at the end of a section');
  copy.flush();
  return copy.out.bytes();
}

export const walkGlobals: Walk = (reader, copy) => {
  reader.vector(() => {
    skipType(reader);
    reader.byte();
    copy.expression();
  });
};

const FUNCTION = 0;

export const walkExports: Walk = (reader, copy) => {
  reader.vector(() => {
    reader.name();
    if (reader.byte() === FUNCTION) copy.functionIndex();
    else reader.unsigned();
  });
};

const TABLE_WITH_INIT = 0x40;
const HAS_MAX = 0x01;

/** Precondition: the limits of the tables were rewritten by bound-memory.ts. */
export const walkTables: Walk = (reader, copy) => {
  reader.vector(() => {
    const hasInit = reader.peek() === TABLE_WITH_INIT;
    if (hasInit) reader.slice(2);
    skipType(reader);
    const flags = reader.byte();
    reader.unsigned();
    if (flags & HAS_MAX) reader.unsigned();
    if (hasInit) copy.expression();
  });
};

/** Flags of an element segment: not active, explicit table or declared, elements are expressions. */
const PASSIVE = 1;
const EXPLICIT = 2;
const EXPRESSIONS = 4;

export const walkElements: Walk = (reader, copy) => {
  reader.vector(() => {
    const flags = reader.unsigned();
    if (flags > (PASSIVE | EXPLICIT | EXPRESSIONS)) throw new ModuleError('the module has a segment of unknown kind');
    const isActive = (flags & PASSIVE) === 0;
    if (isActive && flags & EXPLICIT) reader.unsigned();
    if (isActive) copy.expression();
    if (flags & (PASSIVE | EXPLICIT)) {
      if (flags & EXPRESSIONS) skipType(reader);
      else reader.byte();
    }
    reader.vector(() => (flags & EXPRESSIONS ? copy.expression() : copy.functionIndex()));
  });
};

/** Byte buffer assembled from parts. */
export class ByteList {
  readonly #parts: Uint8Array[] = [];
  byteLength = 0;

  add(part: Uint8Array | readonly number[]): this {
    const bytes = part instanceof Uint8Array ? part : Uint8Array.from(part);
    this.#parts.push(bytes);
    this.byteLength += bytes.byteLength;
    return this;
  }

  number(value: number): this {
    return this.add(unsignedLeb(value));
  }

  join(other: ByteList): this {
    for (const bytes of other.#parts) this.add(bytes);
    return this;
  }

  /** Appends a part, prefixed with its length. */
  sized(part: ByteList): this {
    return this.number(part.byteLength).join(part);
  }

  bytes(): Uint8Array {
    return Buffer.concat(this.#parts);
  }
}

export const nameBytes = (name: string): readonly number[] => {
  const bytes = Buffer.from(name);
  return [...unsignedLeb(bytes.byteLength), ...bytes];
};

const NAME_SECTION = 'name';
const FUNCTIONS = 1;

/** The function names of a name section, which stack traces show, renumbered; null: none, or malformed. */
export function renumberNames(custom: Uint8Array, renumber: Renumber): Uint8Array | null {
  try {
    const reader = new WasmReader(custom);
    if (reader.name() !== NAME_SECTION) return null;
    while (!reader.done) {
      const kind = reader.byte();
      const part = reader.slice(reader.unsigned());
      if (kind === FUNCTIONS) return functionNames(new WasmReader(part), renumber);
    }
  } catch {
    // A malformed custom section is not an error.
  }
  return null;
}

function functionNames(reader: WasmReader, renumber: Renumber): Uint8Array {
  const names = new ByteList();
  const count = reader.unsigned();
  names.number(count);
  for (let left = count; left > 0; left--) {
    names.number(renumber(reader.unsigned()));
    const length = reader.unsigned();
    names.number(length).add(reader.slice(length));
  }
  return new ByteList().add(nameBytes(NAME_SECTION)).add([FUNCTIONS]).sized(names).bytes();
}

const HINT_SECTION = 'metadata.code.branch_hint';
/** One byte: unlikely. */
const UNLIKELY = [0x01, 0x00];

/** Offsets of unlikely branches from the first byte of a function, in the order of its code. */
export interface UnlikelyBranches {
  /** Index of the function. */
  readonly function: number;
  readonly at: readonly number[];
}

/** Custom section that marks branches as unlikely: the engine then moves their code out of line and keeps registers. */
export function branchHints(functions: readonly UnlikelyBranches[]): Uint8Array {
  const hints = new ByteList().add(nameBytes(HINT_SECTION)).number(functions.length);
  for (const { function: index, at } of functions) {
    hints.number(index).number(at.length);
    for (const offset of at) hints.number(offset).add(UNLIKELY);
  }
  return hints.bytes();
}

export interface ImportCounts {
  readonly count: number;
  /** The encoded entries. */
  readonly list: Uint8Array;
  readonly functions: number;
  readonly memories: number;
}

/** Counts of the imports that precede the module's own functions and memories in the index spaces. */
export function readImports(body: Uint8Array = Uint8Array.of(0)): ImportCounts {
  const reader = new WasmReader(body);
  const count = reader.unsigned();
  const list = body.subarray(reader.offset);
  let functions = 0;
  let memories = 0;
  for (let left = count; left > 0; left--) {
    if (reader.name() === PREEMPTION_MODULE)
      throw new ModuleError(`the module imports from ${PREEMPTION_MODULE}, which is reserved`);
    reader.name();
    const kind = reader.byte();
    if (kind === 0x00) {
      functions += 1;
      reader.unsigned();
    } else if (kind === 0x01) {
      skipType(reader);
      skipLimits(reader);
    } else if (kind === 0x02) {
      memories += 1;
      skipLimits(reader);
    } else if (kind === 0x03) {
      skipType(reader);
      reader.byte();
    } else if (kind === 0x04) {
      reader.byte();
      reader.unsigned();
    } else throw new ModuleError(`the module has an import of unknown kind ${kind}`);
  }
  return { count, list, functions, memories };
}

function skipLimits(reader: WasmReader): void {
  const flags = reader.byte();
  if (flags > HAS_MAX) throw new ModuleError('the module imports a memory or a table with unknown limit flags');
  reader.unsigned();
  if (flags & HAS_MAX) reader.unsigned();
}
