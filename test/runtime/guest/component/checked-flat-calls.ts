import { type Call, calls } from '../../../../src/runtime/abi/calls.ts';
import { errnoNames } from '../../../../src/runtime/abi/errno.ts';
import type { WitFunction } from '../../../../src/runtime/abi/wit.ts';
import type { GuestState } from '../../../../src/runtime/guest/hostcalls/guest-state.ts';
import { hasReturnArea } from '../../../support/guest-text.ts';
import { TestGuest, type TestGuestOptions } from '../../../support/test-guest.ts';
import { AREA, type RandomFlatCall } from './random-flat-calls.ts';

/** What lies in the memory before a call: nothing that a call would write by sources. */
const UNTOUCHED = 0x5a;
const MAX_AREA_BYTES = 12;
const rows = new Map<string, Call>(calls.map((row) => [row.name, row]));

type Range = readonly [from: number, to: number];

/** A component whose core module makes the calls; what its allocator does is the test's. */
export interface FlatGuest {
  readonly memory: WebAssembly.Memory;
  /** What the allocator answers in the next call. */
  answer(answer: RandomFlatCall['answer']): void;
  /** What it gave out in the last one. */
  taken(): readonly Range[];
  call(name: string, params: readonly number[]): Promise<unknown>;
}

export interface FlatLane {
  readonly open: (state: GuestState) => FlatGuest;
  /** Whether an instance is called again after a trap: what jco writes is not made for it. */
  readonly survivesTraps: boolean;
  readonly isTrap: (error: unknown) => boolean;
}

/** A trap, an `ok`, an errno, or a result without either. */
export type Outcome = 'trap' | 'ok' | 'errno' | 'direct';

/**
 * Makes the calls one after the other for one guest. An undocumented errno, a failure that is no trap, and a byte that
 * was written elsewhere than into a result, is an error.
 */
export async function makeFlatCalls(
  { open, survivesTraps, isTrap }: FlatLane,
  random: readonly RandomFlatCall[],
  made: (name: string, outcome: Outcome) => void,
  options: Pick<TestGuestOptions, 'mcp'> = {},
): Promise<void> {
  const limits = { max_fds: 32, max_sessions: 16, max_session_bytes: 16_384 };
  const guest = await TestGuest.open({ ...options, limits });
  const opened = () => {
    const made = open(guest.state);
    Buffer.from(made.memory.buffer).fill(UNTOUCHED);
    return made;
  };
  let instance = opened();
  try {
    for (const call of random) {
      const outcome = await make(instance, call, isTrap);
      made(call.fn.name, outcome);
      if (outcome === 'trap' && !survivesTraps) instance = opened();
      guest.output.length = 0;
    }
  } finally {
    await guest.close();
  }
}

async function make(guest: FlatGuest, call: RandomFlatCall, isTrap: FlatLane['isTrap']): Promise<Outcome> {
  const memory = Buffer.from(guest.memory.buffer);
  memory.fill(UNTOUCHED, AREA, AREA + 2 * MAX_AREA_BYTES);
  for (const { ptr, bytes } of call.placed) memory.set(bytes, ptr);
  guest.answer(call.answer);
  const before = Buffer.from(memory);
  const called = `${call.fn.name}(${call.params.join(', ')})`;
  try {
    await guest.call(call.fn.name, call.params);
  } catch (error) {
    if (isTrap(error)) return 'trap';
    throw new Error(`${called} failed and did not trap`, { cause: error });
  }
  const after = Buffer.from(guest.memory.buffer);
  // Of nothing at all the address may be anything.
  for (const [from, to] of guest.taken()) if (to > from) after.copy(before, from, from, to);
  if (hasReturnArea(call.fn)) after.copy(before, areaOf(call), areaOf(call), areaOf(call) + areaBytes(call.fn));
  if (!before.equals(after)) throw new Error(`${called} wrote outside of its result`);
  return hasReturnArea(call.fn) ? result(called, call, after) : 'direct';
}

function areaBytes({ value }: WitFunction): number {
  if (value === 'none') return 2;
  return value === 'string' || value.startsWith('list<') ? MAX_AREA_BYTES : 8;
}

const areaOf = ({ params }: RandomFlatCall): number => (params.at(-1) ?? 0) >>> 0;

function result(called: string, call: RandomFlatCall, after: Buffer): 'ok' | 'errno' {
  const { fn } = call;
  const at = areaOf(call);
  if (!fn.fallible) return 'ok';
  const which = after.readUInt8(at);
  if (which > 1) throw new Error(`${called} gave neither ok nor an errno`);
  if (which === 0) return 'ok';
  const name = errnoNames[after.readUInt8(at + (fn.value === 'none' ? 1 : 4))];
  const documented = Object.keys(rows.get(fn.call)?.errnos ?? {});
  if (!name || !documented.includes(name)) throw new Error(`${called} gave ${name}, which its row does not have`);
  return 'errno';
}
