import { type Instruction, op, skipType } from '../instructions.ts';
import { unsignedLeb, WasmReader } from '../wasm-binary.ts';
import { ByteList, type Renumber, RenumberedCopy, type UnlikelyBranches } from './sections.ts';

export interface CodeNumbers {
  readonly renumber: Renumber;
  /** Index of the imported yield function, after all other imports. */
  readonly tick: number;
  /** Index of the added function that calls it, after all other functions. */
  readonly yieldIndex: number;
  /** Index of the memory with the yield flag. */
  readonly turns: number;
}

export interface YieldingCode {
  readonly body: Uint8Array;
  /** Branches of the yield points: a guest rarely has to yield. */
  readonly unlikely: readonly UnlikelyBranches[];
}

const VOID = 0x40;
const IF = 0x04;
/** Alignment of four bytes, with an explicit memory index. */
const ALIGNED_IN_MEMORY = 0x42;

/** Adds a yield point to each loop, and to each function that {@link entryYieldPoints} selects. */
export function codeWithYieldPoints(body: Uint8Array, numbers: CodeNumbers): YieldingCode {
  const reader = new WasmReader(body);
  const count = reader.unsigned();
  const yieldPoint = yieldPointOf(numbers);
  const found: LoopingFunction[] = [];
  for (let left = count; left > 0; left--) {
    found.push(withLoopYieldPoints(reader.slice(reader.unsigned()), yieldPoint.bytes, numbers, count));
  }
  const atEntry = entryYieldPoints(found);
  const functions = new ByteList().number(count + 1);
  const unlikely: UnlikelyBranches[] = [];
  for (const [index, { locals, code, loops }] of found.entries()) {
    const begins = atEntry[index] ? yieldPoint.bytes : NOTHING;
    const beforeCode = locals.byteLength + begins.byteLength;
    functions.sized(new ByteList().add(locals).add(begins).join(code));
    const points = [...(atEntry[index] ? [locals.byteLength] : []), ...loops.map((loop) => beforeCode + loop)];
    if (points.length === 0) continue;
    unlikely.push({ function: numbers.tick + 1 + index, at: points.map((at) => at + yieldPoint.branchAt) });
  }
  const usesTryTable = found.some((each) => each.usesTryTable);
  functions.sized(yieldFunction(numbers.tick, usesTryTable));
  return { body: functions.bytes(), unlikely };
}

const NOTHING = new Uint8Array();

interface YieldPoint {
  readonly bytes: Uint8Array;
  /** Offset of the branch. */
  readonly branchAt: number;
}

/** `if (turns[0]) yield()` */
function yieldPointOf({ turns, yieldIndex }: CodeNumbers): YieldPoint {
  const loads = [0x41, 0x00, 0xfe, 0x10, ALIGNED_IN_MEMORY, ...unsignedLeb(turns), 0x00];
  const branches = [IF, VOID, op.call, ...unsignedLeb(yieldIndex), op.end];
  return { bytes: Uint8Array.from([...loads, ...branches]), branchAt: loads.length };
}

/**
 * `try { tick() } catch {}`. With frames of JavaScript between the guest and its caller the engine cannot suspend and
 * throws; the guest then continues. A trap cannot be caught and still ends the guest. Uses the exception instructions
 * that the module uses (`try` or `try_table`), because an engine accepts only one form per module.
 */
function yieldFunction(tick: number, usesTryTable: boolean): ByteList {
  const call = [op.call, ...unsignedLeb(tick)];
  const guarded = usesTryTable
    ? [0x02, VOID, op.tryTable, VOID, 0x01, 0x02, 0x00, ...call, op.end, op.end]
    : [op.try, VOID, ...call, op.catchAll, op.end];
  return new ByteList().add([0x00, ...guarded, op.end]);
}

interface LoopingFunction extends FunctionShape {
  readonly locals: Uint8Array;
  readonly code: ByteList;
  /** Offsets of the yield points of loops. */
  readonly loops: readonly number[];
  readonly usesTryTable: boolean;
}

function withLoopYieldPoints(
  source: Uint8Array,
  yieldPoint: Uint8Array,
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
  let usesTryTable = false;
  let cost = 0;
  while (!reader.done) {
    const instruction = copy.instruction();
    const { opcode } = instruction;
    cost += isLong(instruction) ? MAX_UNINTERRUPTED : 1;
    if (opcode === op.loop) {
      copy.flush();
      loops.push(copy.out.byteLength);
      copy.out.add(yieldPoint);
    } else if (opcode === op.call || opcode === op.returnCall) {
      const called = copy.named - imports;
      if (called >= 0 && called < count) calls.push(called);
      else callsOut = true;
    } else if (opcode > op.call && opcode <= op.returnCallRef) callsOut = true;
    else if (opcode === op.tryTable || opcode === THROW_REF) usesTryTable = true;
  }
  copy.flush();
  return { locals, code: copy.out, loops, calls, callsOut, cost, usesTryTable };
}

const THROW_REF = 0x0a;
const MEMORY_GROW = 0x40;
const BULK = 0xfc;
/** Lower codes are conversions of numbers. */
const FIRST_BULK = 8;

/** Instructions whose duration depends on an operand. */
const isLong = ({ opcode, sub }: Instruction): boolean =>
  opcode === MEMORY_GROW || (opcode === BULK && sub >= FIRST_BULK);

/** Work of a function between two yield points of its loops. */
export interface FunctionShape {
  /** Direct calls of the module's own functions, repeated for each call. */
  readonly calls: readonly number[];
  /** Whether it calls an unknown function: an import, which may call back, or one from a table or reference. */
  readonly callsOut: boolean;
  /** Instructions, each counted once. */
  readonly cost: number;
}

/** Maximum number of instructions without a yield point, about one microsecond. */
export const MAX_UNINTERRUPTED = 1_000;

const OPEN = 1;
const DONE = 2;

/**
 * Selects the functions with a yield point at their entry: functions that call unknown functions, at least one function
 * of every cycle of calls, and functions that with their callees may run for longer than {@link MAX_UNINTERRUPTED}, also through a tree
 * of calls. Callees with a yield point of their own are not counted.
 */
export function entryYieldPoints(functions: readonly FunctionShape[]): boolean[] {
  const selected = functions.map(({ callsOut }) => callsOut);
  const costs = Float64Array.from(functions, ({ cost }) => cost);
  const states = new Uint8Array(functions.length);
  const path: { readonly index: number; readonly calls: readonly number[]; next: number }[] = [];
  const open = (index: number) => {
    states[index] = OPEN;
    path.push({ index, calls: (functions[index] as FunctionShape).calls, next: 0 });
  };

  for (const root of functions.keys()) {
    if (states[root] === DONE || selected[root]) continue;
    open(root);
    // No recursion: a chain of calls may be as long as the module.
    for (let top = path.at(-1); top; top = path.at(-1)) {
      const { index, calls } = top;
      const called = calls[top.next];
      if (called === undefined) {
        states[index] = DONE;
        if ((costs[index] as number) > MAX_UNINTERRUPTED) selected[index] = true;
        path.pop();
      } else if (selected[called]) top.next += 1;
      else if (states[called] === OPEN) selected[called] = true;
      else if (states[called] !== DONE) open(called);
      else {
        costs[index] = (costs[index] as number) + (costs[called] as number);
        top.next += 1;
      }
    }
  }
  return selected;
}
