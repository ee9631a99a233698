import type { ComponentReader } from './component-reader.ts';
import { readResultList } from './type-binary.ts';

export interface CanonOptions {
  readonly encoding: 'utf8' | 'utf16' | 'latin1+utf16';
  readonly memory: number | undefined;
  readonly realloc: number | undefined;
  /** A lift or lowering of the asynchronous form of the canonical ABI. */
  readonly async: boolean;
}

/** How a function crosses between a component and its core modules. */
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
