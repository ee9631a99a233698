import { type Instruction, op, skipType } from '../instructions.ts';
import { unsignedLeb, WasmReader } from '../wasm-binary.ts';
import type { SeldomBranches } from './branch-hints.ts';
import { ByteList } from './byte-list.ts';
import { entryLooks, type FunctionShape, MAX_UNSEEN } from './entry-looks.ts';
import { type Renumber, RenumberedCopy } from './renumber.ts';

export interface CodeNumbers {
  readonly renumber: Renumber;
  /** The imported function, after all other imports. */
  readonly tick: number;
  /** The function that calls it, after all others. */
  readonly giveWay: number;
  /** The memory that says whether to. */
  readonly turns: number;
}

export interface TurnedCode {
  readonly body: Uint8Array;
  /** The looks: a guest is seldom to give way. */
  readonly seldom: readonly SeldomBranches[];
}

const VOID = 0x40;
const IF = 0x04;
/** An alignment of four bytes, of a memory that is named. */
const ALIGNED_IN_MEMORY = 0x42;

/** The functions with a look at the beginning of each loop, and of each function that must have one. */
export function codeWithTurns(body: Uint8Array, numbers: CodeNumbers): TurnedCode {
  const reader = new WasmReader(body);
  const count = reader.unsigned();
  const look = lookIn(numbers);
  const found: LoopingFunction[] = [];
  for (let left = count; left > 0; left--) {
    found.push(withLoopLooks(reader.slice(reader.unsigned()), look.bytes, numbers, count));
  }
  const looks = entryLooks(found);
  const functions = new ByteList().number(count + 1);
  const seldom: SeldomBranches[] = [];
  for (const [index, { locals, code, loops }] of found.entries()) {
    const begins = looks[index] ? look.bytes : NOTHING;
    const beforeCode = locals.byteLength + begins.byteLength;
    functions.sized(new ByteList().add(locals).add(begins).join(code));
    const lookedAt = [...(looks[index] ? [locals.byteLength] : []), ...loops.map((loop) => beforeCode + loop)];
    if (lookedAt.length === 0) continue;
    seldom.push({ function: numbers.tick + 1 + index, at: lookedAt.map((at) => at + look.branchAt) });
  }
  const handlesNewly = found.some((each) => each.handlesNewly);
  functions.sized(giveWay(numbers.tick, handlesNewly));
  return { body: functions.bytes(), seldom };
}

const NOTHING = new Uint8Array();

interface Look {
  readonly bytes: Uint8Array;
  /** Where in it the branch is. */
  readonly branchAt: number;
}

/** `if (turns[0]) giveWay()` */
function lookIn({ turns, giveWay }: CodeNumbers): Look {
  const loads = [0x41, 0x00, 0xfe, 0x10, ALIGNED_IN_MEMORY, ...unsignedLeb(turns), 0x00];
  const branches = [IF, VOID, op.call, ...unsignedLeb(giveWay), op.end];
  return { bytes: Uint8Array.from([...loads, ...branches]), branchAt: loads.length };
}

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

interface LoopingFunction extends FunctionShape {
  readonly locals: Uint8Array;
  readonly code: ByteList;
  /** Where in the code a look begins. */
  readonly loops: readonly number[];
  readonly handlesNewly: boolean;
}

function withLoopLooks(
  source: Uint8Array,
  look: Uint8Array,
  { renumber, tick: imports }: CodeNumbers,
  count: number,
): LoopingFunction {
  const reader = new WasmReader(source);
  reader.vector(() => {
    reader.unsigned();
    skipType(reader);
  });
  const locals = source.subarray(0, reader.offset);
  const copy = new RenumberedCopy(source, reader, renumber);
  const calls: number[] = [];
  const loops: number[] = [];
  let callsOut = false;
  let handlesNewly = false;
  let cost = 0;
  while (!reader.done) {
    const instruction = copy.instruction();
    const { opcode } = instruction;
    cost += isLong(instruction) ? MAX_UNSEEN : 1;
    if (opcode === op.loop) {
      copy.flush();
      loops.push(copy.out.byteLength);
      copy.out.add(look);
    } else if (opcode === op.call || opcode === op.returnCall) {
      const called = copy.named - imports;
      if (called >= 0 && called < count) calls.push(called);
      else callsOut = true;
    } else if (opcode > op.call && opcode <= op.returnCallRef) callsOut = true;
    else if (opcode === op.tryTable || opcode === THROW_REF) handlesNewly = true;
  }
  copy.flush();
  return { locals, code: copy.out, loops, calls, callsOut, cost, handlesNewly };
}

const THROW_REF = 0x0a;
const MEMORY_GROW = 0x40;
const BULK = 0xfc;
/** Before it are conversions of numbers. */
const FIRST_BULK = 8;

/** Those that take as long as they are told to. */
const isLong = ({ opcode, sub }: Instruction): boolean =>
  opcode === MEMORY_GROW || (opcode === BULK && sub >= FIRST_BULK);
