import { op, skipType } from '../instructions.ts';
import { unsignedLeb, WasmReader } from '../wasm-binary.ts';
import { ByteList } from './byte-list.ts';
import { type Renumber, RenumberedCopy } from './renumber.ts';

export interface CodeNumbers {
  readonly renumber: Renumber;
  /** The imported function. */
  readonly tick: number;
  /** The function that calls it, after all others. */
  readonly giveWay: number;
  /** The memory that says whether to. */
  readonly turns: number;
}

const VOID = 0x40;
/** An alignment of four bytes, of a memory that is named. */
const ALIGNED_IN_MEMORY = 0x42;

/**
 * The functions with a look at the beginning of each loop, and of each function that calls others: a loop or a chain of
 * calls then has one, whatever way it goes. A function without either ends by itself.
 */
export function codeWithTurns(body: Uint8Array, numbers: CodeNumbers): Uint8Array {
  const reader = new WasmReader(body);
  const count = reader.unsigned();
  const look = lookIn(numbers);
  const functions = new ByteList().number(count + 1);
  let handlesNewly = false;
  for (let left = count; left > 0; left--) {
    const source = reader.slice(reader.unsigned());
    const found = functionWithTurns(source, look, numbers.renumber);
    functions.sized(found.body);
    handlesNewly ||= found.handlesNewly;
  }
  return functions.sized(giveWay(numbers.tick, handlesNewly)).bytes();
}

/** `if (turns[0]) giveWay()` */
const lookIn = ({ turns, giveWay }: CodeNumbers): Uint8Array =>
  Uint8Array.from([
    ...[0x41, 0x00],
    ...[0xfe, 0x10, ALIGNED_IN_MEMORY, ...unsignedLeb(turns), 0x00],
    ...[0x04, VOID, op.call, ...unsignedLeb(giveWay), op.end],
  ]);

/**
 * `try { tick() } catch {}`. Where frames of JavaScript lie between the guest and whoever entered it, nothing can be
 * suspended and the engine throws: then the guest goes on. A trap cannot be caught, so it still ends the guest. In the
 * form of the module's own handlers, for an engine takes one form only.
 */
function giveWay(tick: number, handlesNewly: boolean): ByteList {
  const call = [op.call, ...unsignedLeb(tick)];
  const guarded = handlesNewly
    ? [0x02, VOID, op.tryTable, VOID, 0x01, 0x02, 0x00, ...call, op.end, op.end]
    : [op.try, VOID, ...call, op.catchAll, op.end];
  return new ByteList().add([0x00, ...guarded, op.end]);
}

function functionWithTurns(
  source: Uint8Array,
  look: Uint8Array,
  renumber: Renumber,
): { readonly body: ByteList; readonly handlesNewly: boolean } {
  const reader = new WasmReader(source);
  reader.vector(() => {
    reader.unsigned();
    skipType(reader);
  });
  const locals = source.subarray(0, reader.offset);
  const copy = new RenumberedCopy(source, reader, renumber);
  let calls = false;
  let handlesNewly = false;
  while (!reader.done) {
    const opcode = copy.instruction();
    if (opcode === op.loop) {
      copy.flush();
      copy.out.add(look);
    }
    if (opcode >= op.call && opcode <= op.returnCallRef) calls = true;
    if (opcode === op.tryTable || opcode === THROW_REF) handlesNewly = true;
  }
  copy.flush();
  const body = new ByteList().add(locals);
  if (calls) body.add(look);
  return { body: body.join(copy.out), handlesNewly };
}

const THROW_REF = 0x0a;
