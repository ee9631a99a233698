import { ModuleError } from '../abi/guest-module.ts';
import { binaryKind, REF_WITH_HEAP_TYPE, readSections, WasmReader } from './wasm-binary.ts';

/*
 * Lengths of instructions, and which of their immediates are function indices. Covers all instructions that engines
 * support without a flag; an unknown instruction is an error, because its length is unknown.
 */

export const op = {
  loop: 0x03,
  try: 0x06,
  call: 0x10,
  returnCallIndirect: 0x13,
  callRef: 0x14,
  returnCallRef: 0x15,
  returnCall: 0x12,
  catchAll: 0x19,
  tryTable: 0x1f,
  end: 0x0b,
  refFunc: 0xd2,
  simd: 0xfd,
} as const;

/** An instruction of a function or of a constant expression. */
export interface Instruction {
  readonly opcode: number;
  /** Opcode after a prefix; -1: no prefix. */
  readonly sub: number;
  /** Offset of the last immediate: the function index, if the instruction has one. */
  readonly numberAt: number;
}

/** Reads one instruction with its immediates. @throws ModuleError for an unknown instruction */
export function readInstruction(code: WasmReader): Instruction {
  const opcode = code.byte();
  const prefixed = readPrefixed[opcode];
  const sub = prefixed === undefined ? -1 : code.unsigned();
  const numberAt = code.offset;
  if (prefixed !== undefined) prefixed(code, sub);
  else readPlain(code, opcode);
  return { opcode, sub, numberAt };
}

const readPrefixed: Readonly<Record<number, (code: WasmReader, sub: number) => void>> = {
  251: readGc,
  252: (code, sub) => skipNumbers(code, known(bulkNumbers[sub], 0xfc, sub)),
  [op.simd]: readSimd,
  254: readAtomic,
};

function readPlain(code: WasmReader, opcode: number): void {
  if (opcode >= 0x45 && opcode <= 0xc4) return;
  if (opcode >= 0x28 && opcode <= 0x3e) {
    skipMemory(code);
    return;
  }
  switch (opcode) {
    case 0x02:
    case op.loop:
    case 0x04:
    case op.try:
      skipType(code);
      return;
    case 0x0e:
      skipNumbers(code, code.unsigned() + 1);
      return;
    case 0x1c:
      code.vector(() => skipType(code));
      return;
    case op.tryTable:
      skipType(code);
      code.vector(() => skipNumbers(code, code.byte() < 2 ? 2 : 1));
      return;
    case 0x43:
      code.slice(4);
      return;
    case 0x44:
      code.slice(8);
      return;
    default:
      skipNumbers(code, known(plainNumbers.get(opcode), opcode));
  }
}

const plainNumbers: ReadonlyMap<number, number> = new Map([
  ...[0x00, 0x01, 0x05, 0x0a, op.end, 0x0f, op.catchAll, 0x1a, 0x1b, 0xd1, 0xd3, 0xd4].map(
    (opcode): [number, number] => [opcode, 0],
  ),
  ...[
    0x07,
    0x08,
    0x09,
    0x0c,
    0x0d,
    op.call,
    op.returnCall,
    op.callRef,
    op.returnCallRef,
    0x18,
    0x20,
    0x21,
    0x22,
    0x23,
    0x24,
    0x25,
    0x26,
    0x3f,
    0x40,
    0x41,
    0x42,
    0xd0,
    op.refFunc,
    0xd5,
    0xd6,
  ].map((opcode): [number, number] => [opcode, 1]),
  [0x11, 2],
  [op.returnCallIndirect, 2],
]);

const bulkNumbers: Readonly<Record<number, number>> = {
  ...Object.fromEntries([0, 1, 2, 3, 4, 5, 6, 7].map((sub) => [sub, 0])),
  ...Object.fromEntries([9, 11, 13, 15, 16, 17].map((sub) => [sub, 1])),
  ...Object.fromEntries([8, 10, 12, 14].map((sub) => [sub, 2])),
};

const gcNumbers: Readonly<Record<number, number>> = {
  ...Object.fromEntries([15, 26, 27, 28, 29, 30].map((sub) => [sub, 0])),
  ...Object.fromEntries([0, 1, 6, 7, 11, 12, 13, 14, 16, 20, 21, 22, 23].map((sub) => [sub, 1])),
  ...Object.fromEntries([2, 3, 4, 5, 8, 9, 10, 17, 18, 19].map((sub) => [sub, 2])),
};

function readGc(code: WasmReader, sub: number): void {
  if (sub === 24 || sub === 25) {
    code.byte();
    skipNumbers(code, 3);
  } else skipNumbers(code, known(gcNumbers[sub], 0xfb, sub));
}

const FENCE = 3;
const LAST_ATOMIC = 0x4e;

function readAtomic(code: WasmReader, sub: number): void {
  if (sub === FENCE) code.byte();
  else if (sub <= 2 || (sub >= 0x10 && sub <= LAST_ATOMIC)) skipMemory(code);
  else known(undefined, 0xfe, sub);
}

/** The last of relaxed SIMD. */
const LAST_SIMD = 0x113;

function readSimd(code: WasmReader, sub: number): void {
  if (sub > LAST_SIMD) known(undefined, op.simd, sub);
  if (sub <= 11 || (sub >= 84 && sub <= 93)) skipMemory(code);
  if (sub === 12 || sub === 13) code.slice(16);
  if ((sub >= 21 && sub <= 34) || (sub >= 84 && sub <= 91)) code.byte();
}

function known<T>(found: T | undefined, ...opcode: number[]): T {
  if (found !== undefined) return found;
  const name = opcode.map((part) => `0x${part.toString(16)}`).join(' ');
  throw new ModuleError(`the module has the unknown instruction ${name}`);
}

function skipMemory(code: WasmReader): void {
  const align = code.unsigned();
  skipNumbers(code, align & 0x40 ? 2 : 1);
}

export function skipType(code: WasmReader): void {
  if (REF_WITH_HEAP_TYPE.includes(code.peek())) code.byte();
  code.unsigned();
}

function skipNumbers(code: WasmReader, count: number): void {
  for (let left = count; left > 0; left--) code.unsigned();
}

/*
 * Relaxed SIMD: instructions with engine-defined results, the only nondeterminism in wasm that does not come through an
 * import. The code is decoded only if the bytes of such an instruction occur in the module.
 */

const CODE = 10;
const CORE_MODULE = 1;
const NESTED_COMPONENT = 4;
const FIRST_RELAXED = 0x100;
const LAST_RELAXED = 0x113;

/** Whether a module, or a core module of a component, has relaxed SIMD instructions. */
export function usesRelaxedSimd(bytes: Uint8Array): boolean {
  if (!mayUse(bytes)) return false;
  if (binaryKind(bytes) === 'core') return readSections(bytes).some(({ id, body }) => id === CODE && isInCode(body));
  return readSections(bytes).some(
    ({ id, body }) => (id === CORE_MODULE || id === NESTED_COMPONENT) && usesRelaxedSimd(body),
  );
}

/** Searches for `fd 80 02` to `fd 93 02`. A match may be part of other data. */
function mayUse(bytes: Uint8Array): boolean {
  for (let at = bytes.indexOf(op.simd); at >= 0; at = bytes.indexOf(op.simd, at + 1)) {
    const [low, high] = [bytes[at + 1] ?? 0, bytes[at + 2]];
    if (high === FIRST_RELAXED >> 7 && low >= 0x80 && low <= (0x80 | (LAST_RELAXED & 0x7f))) return true;
  }
  return false;
}

function isInCode(section: Uint8Array): boolean {
  const reader = new WasmReader(section);
  return reader.vector(() => isInFunction(reader.slice(reader.unsigned()))).some(Boolean);
}

function isInFunction(body: Uint8Array): boolean {
  const code = new WasmReader(body);
  code.vector(() => {
    code.unsigned();
    skipType(code);
  });
  while (!code.done) {
    const { opcode, sub } = readInstruction(code);
    if (opcode === op.simd && sub >= FIRST_RELAXED && sub <= LAST_RELAXED) return true;
  }
  return false;
}
