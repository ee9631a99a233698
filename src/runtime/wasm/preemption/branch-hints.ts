import { ByteList, nameBytes } from './byte-list.ts';

const NAME = 'metadata.code.branch_hint';
/** One byte: seldom taken. */
const SELDOM = [0x01, 0x00];

/** Where a function has branches that are seldom taken: from its first byte, in the order of its code. */
export interface SeldomBranches {
  /** Its number. */
  readonly function: number;
  readonly at: readonly number[];
}

/**
 * The custom section that tells an engine so: it then keeps what such a branch calls out of the way, and values in their
 * registers.
 */
export function branchHints(functions: readonly SeldomBranches[]): Uint8Array {
  const hints = new ByteList().add(nameBytes(NAME)).number(functions.length);
  for (const { function: index, at } of functions) {
    hints.number(index).number(at.length);
    for (const offset of at) hints.number(offset).add(SELDOM);
  }
  return hints.bytes();
}
