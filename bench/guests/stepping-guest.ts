import { type Call, type CallName, calls, coreParams } from '../../src/runtime/abi/calls.ts';
import { call, i32Const, localGet, type ValueType, WasmModule } from '../../test/support/wasm-encoder.ts';
import {
  branch,
  branchIf,
  countDown,
  DROP,
  ELSE,
  END,
  I32_ADD,
  I32_AND,
  I32_EQZ,
  I32_SHR_U,
  I32_SUB,
  IF,
  i64Const,
  LOOP,
  loadFrom,
  localSet,
  RETURN,
  storeAt,
} from './instructions.ts';

/** Where things lie in the guest's memory. */
const READ_VECTOR = 16;
const READ_COUNT = 24;
const COMMAND = 32;
const WRITE_VECTOR = 48;
const WRITE_COUNT = 56;
const OUT_SLOT = 64;
const FIRST_TEXT = 1024;
const STAMPS = 65_536;
const OUT = 1 << 20;
const OUT_CAPACITY = 1 << 20;
const PAGES = 48;

const MONOTONIC = 1;
const STAMP_BYTES = 8;
/** More steps of one command would run into the out-buffer. */
export const MAX_STEPS = (OUT - STAMPS) / STAMP_BYTES - 1;

/** Which step a command means stands above the count of them. */
export const KIND_SHIFT = 24;

/** Locals of the guest: what its setup made (three of them), the count of steps, the place of the next stamp, which step. */
const SETUP_LOCALS = 3;
const STEPS = SETUP_LOCALS;
const STAMP = SETUP_LOCALS + 1;
const KIND = SETUP_LOCALS + 2;

/** Writes the instructions of a stepping guest. */
export class Steps {
  readonly #module: WasmModule;
  readonly #imports: ReadonlyMap<string, number>;
  #nextText = FIRST_TEXT;

  constructor(module: WasmModule, imports: ReadonlyMap<string, number>) {
    this.#module = module;
    this.#imports = imports;
  }

  /** The value of a hostcall; arguments are numbers or instructions. */
  call(name: CallName, ...args: (number | readonly number[])[]): number[] {
    const pushed = args.flatMap((arg) => (typeof arg === 'number' ? i32Const(arg) : arg));
    return [...pushed, ...call(this.#imports.get(name) as number)];
  }

  text(text: string): [ptr: number, length: number] {
    const bytes = Buffer.from(text);
    const ptr = this.#nextText;
    this.#nextText += bytes.byteLength;
    if (this.#nextText > STAMPS) throw new Error('the texts of the guest do not fit');
    this.#module.data(ptr, bytes);
    return [ptr, bytes.byteLength];
  }

  /** JSON for a `*_ctl` command: its place and the place of its length. */
  argument(json: string): [ptr: number, lengthPtr: number] {
    const [ptr, length] = this.text(json);
    const at = this.#nextText;
    this.#nextText += 4;
    this.#module.data(at, new Uint8Array(Uint32Array.of(length).buffer));
    return [ptr, at];
  }

  /** Sets the capacity of the out-buffer, as a guest does before each call. */
  readonly setCapacity: number[] = storeAt(OUT_SLOT, i32Const(OUT_CAPACITY));
  readonly out: [ptr: number, lengthPtr: number] = [OUT, OUT_SLOT];

  /** Place of the guest tool in the function table. */
  readonly toolSlot = 0;

  set(local: 0 | 1 | 2, value: readonly number[]): number[] {
    return [...value, ...localSet(local)];
  }

  get(local: 0 | 1 | 2): number[] {
    return localGet(local);
  }
}

export interface SteppingGuest {
  /** Runs once, before the first command. May use the locals 0 to 2. */
  readonly setup?: (steps: Steps) => number[];
  /** One step, leaving nothing on the stack. */
  readonly step: (steps: Steps) => number[];
  /** Another step, which commands can ask for instead. */
  readonly otherStep?: (steps: Steps) => number[];
  /** A guest tool that answers this text, at place 0 of the function table. */
  readonly tool?: string;
}

/**
 * A guest that waits on stdin for a number, takes that many steps, and writes to stdout when each ended (nanoseconds,
 * the first stamp before the first step). So its calls are timed where the guest sees them, whatever runs it.
 */
export function steppingGuest({ setup = () => [], step, otherStep = () => [], tool }: SteppingGuest): Uint8Array {
  const module = new WasmModule();
  const i32s = (count: number): ValueType[] => Array.from({ length: count }, () => 'i32');
  const rows: readonly Call[] = calls;
  const imports = new Map(
    rows
      .filter(({ support }) => support !== 'absent')
      .map((row) => {
        const results: ValueType[] = row.result === 'none' ? [] : [row.result];
        return [row.name, module.importFunction('spear', row.name, i32s(coreParams(row).length), results)];
      }),
  );
  const wasi = 'wasi_snapshot_preview1';
  const read = module.importFunction(wasi, 'fd_read', i32s(4), ['i32']);
  const write = module.importFunction(wasi, 'fd_write', i32s(4), ['i32']);
  const clock = module.importFunction(wasi, 'clock_time_get', ['i32', 'i64', 'i32'], ['i32']);
  const steps = new Steps(module, imports);

  const stamp = [
    ...[...i32Const(MONOTONIC), ...i64Const(1), ...localGet(STAMP), ...call(clock), ...DROP],
    ...[...localGet(STAMP), ...i32Const(STAMP_BYTES), ...I32_ADD, ...localSet(STAMP)],
  ];
  const body = [
    ...setup(steps),
    ...LOOP,
    ...storeAt(READ_VECTOR, i32Const(COMMAND)),
    ...storeAt(READ_VECTOR + 4, i32Const(4)),
    ...[...i32Const(0), ...i32Const(READ_VECTOR), ...i32Const(1), ...i32Const(READ_COUNT), ...call(read), ...DROP],
    ...[...loadFrom(READ_COUNT), ...I32_EQZ, ...IF, ...RETURN, ...END],
    ...[...loadFrom(COMMAND), ...i32Const(KIND_SHIFT), ...I32_SHR_U, ...localSet(KIND)],
    ...[...loadFrom(COMMAND), ...i32Const((1 << KIND_SHIFT) - 1), ...I32_AND, ...localSet(STEPS)],
    ...[...i32Const(STAMPS), ...localSet(STAMP)],
    ...stamp,
    ...[...LOOP, ...localGet(KIND), ...IF, ...otherStep(steps), ...ELSE, ...step(steps), ...END],
    ...[...stamp, ...countDown(STEPS), ...branchIf(0), ...END],
    ...storeAt(WRITE_VECTOR, i32Const(STAMPS)),
    ...storeAt(WRITE_VECTOR + 4, [...localGet(STAMP), ...i32Const(STAMPS), ...I32_SUB]),
    ...[...i32Const(1), ...i32Const(WRITE_VECTOR), ...i32Const(1), ...i32Const(WRITE_COUNT), ...call(write), ...DROP],
    ...branch(0),
    ...END,
  ];
  const run = module.function(i32s(KIND + 1), [], body);
  const zeros = i32s(KIND + 1).flatMap(() => i32Const(0));
  module.export('_start', 'function', module.function([], [], [...zeros, ...call(run)]));
  if (tool !== undefined) addTool(module, steps, tool);
  module.export('memory', 'memory', module.memory({ min: PAGES }));
  return module.encode();
}

/** (args_ptr, args_len, out_ptr, out_len_ptr) → 0, with the text copied to the out area. */
function addTool(module: WasmModule, steps: Steps, answer: string): void {
  const MEMORY_COPY = [0xfc, 0x0a, 0x00, 0x00];
  const [ptr, length] = steps.text(answer);
  const body = [
    ...[...localGet(2), ...i32Const(ptr), ...i32Const(length), ...MEMORY_COPY],
    ...[...localGet(3), ...i32Const(length), 0x36, 0x02, 0x00],
    ...i32Const(0),
  ];
  const index = module.function(['i32', 'i32', 'i32', 'i32'], ['i32'], body);
  module.export('__indirect_function_table', 'table', module.table({ min: 1, max: 1 }));
  module.element(0, [index]);
}
