import { i32Const, leb, localGet, signedLeb } from '../../test/support/wasm-encoder.ts';

// The instructions that the guests of the bench are written in.
export const LOOP = [0x03, 0x40];
export const END = [0x0b];
export const RETURN = [0x0f];
export const IF = [0x04, 0x40];
export const I32_EQZ = [0x45];
export const I32_EQ = [0x46];
const I32_NE = [0x47];
const UNREACHABLE = [0x00];
export const I32_ADD = [0x6a];
export const I32_SUB = [0x6b];
export const I32_AND = [0x71];
export const I32_SHR_U = [0x76];
export const ELSE = [0x05];
export const I32_WRAP_I64 = [0xa7];
export const I32_LOAD = [0x28, 0x02, 0x00];
export const I32_STORE = [0x36, 0x02, 0x00];
export const DROP = [0x1a];
export const branch = (depth: number): number[] => [0x0c, ...leb(depth)];
export const branchIf = (depth: number): number[] => [0x0d, ...leb(depth)];
export const localSet = (index: number): number[] => [0x21, ...leb(index)];
export const localTee = (index: number): number[] => [0x22, ...leb(index)];
export const i64Const = (value: number): number[] => [0x42, ...signedLeb(value)];

/** `local = local - 1` and its new value. */
export const countDown = (local: number): number[] => [
  ...localGet(local),
  ...i32Const(1),
  ...I32_SUB,
  ...localTee(local),
];

/** `memory[at] = value` */
export const storeAt = (at: number, value: readonly number[]): number[] => [...i32Const(at), ...value, ...I32_STORE];

export const loadFrom = (at: number): number[] => [...i32Const(at), ...I32_LOAD];

/** Ends the guest where the value is not `expected`: something else would be measured than meant. */
export const mustBe = (value: readonly number[], expected: number): number[] => [
  ...value,
  ...i32Const(expected),
  ...I32_NE,
  ...IF,
  ...UNREACHABLE,
  ...END,
];
