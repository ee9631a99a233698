import { ModuleError } from '../../abi/guest-module.ts';
import { type Instruction, op, readInstruction, skipType } from '../instructions.ts';
import { WasmReader } from '../wasm-binary.ts';
import { ByteList } from './byte-list.ts';

/** The number that a function has now. */
export type Renumber = (index: number) => number;

const namesFunction = (opcode: number): boolean =>
  opcode === op.call || opcode === op.returnCall || opcode === op.refFunc;

/** Copies what was read since the last time, with other numbers of functions. */
export class RenumberedCopy {
  readonly out = new ByteList();
  readonly #source: Uint8Array;
  readonly #reader: WasmReader;
  readonly #renumber: Renumber;
  #copied = 0;
  /** The number that the last function had which was named. */
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

  /** Reads the number of a function. */
  functionIndex(): void {
    const at = this.#reader.offset;
    this.#reader.unsigned();
    this.#replaceNumber(at);
  }

  /** Reads a constant expression to its end. */
  expression(): void {
    while (this.instruction().opcode !== op.end);
  }

  /** Everything up to here. */
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

/** A section as it is, but for the numbers of functions in it. */
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

/** Precondition: the bounds of its tables were written by us. */
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

/** By the bits of its first number: not active, with a table or declared, of expressions. */
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
