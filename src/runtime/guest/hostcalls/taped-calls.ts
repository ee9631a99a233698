import { type Call, calls } from '../../abi/calls.ts';
import { GuestMemory } from '../../abi/memory.ts';
import type { Tape } from '../../durable/guest/tape.ts';
import type { GuestState } from './guest-state.ts';
import type { HostcallTable } from './table.ts';

type Handler = (guest: GuestState, ...args: unknown[]) => unknown;

/**
 * The hostcalls, each of them told to the tape: that it begins, what it passes, and what it comes to. Texts that arrive
 * through {@link TapedMemory} were told already.
 */
export function tapedCalls(table: HostcallTable, tape: Tape): HostcallTable {
  const rows: readonly Call[] = calls;
  const handlers = table as unknown as Readonly<Record<string, Handler>>;
  return Object.fromEntries(
    rows.map(({ name, params }, index) => [name, tapings[params.length]?.(handlers[name] as Handler, index, tape)]),
  ) as unknown as HostcallTable;
}

/** The same for a binding that gets its texts as they are, and not from the guest's memory. */
export function tapedTexts(table: HostcallTable, tape: Tape): HostcallTable {
  const taped = Object.entries(table as unknown as Readonly<Record<string, Handler>>).map(([name, handler]) => [
    name,
    (guest: GuestState, ...args: unknown[]) => {
      for (const text of args) if (typeof text === 'string') tape.passesText(text);
      return handler(guest, ...args);
    },
  ]);
  return Object.fromEntries(taped) as HostcallTable;
}

/** One of each arity: rest parameters would cost more than most of the calls. */
const tapings: readonly ((handler: Handler, row: number, tape: Tape) => Handler)[] = [
  (handler, row, tape) => (guest) => {
    tape.begin(row);
    return given(tape, handler(guest));
  },
  (handler, row, tape) => (guest, a) => {
    tape.begin(row, a);
    return given(tape, handler(guest, a));
  },
  (handler, row, tape) => (guest, a, b) => {
    tape.begin(row, a, b);
    return given(tape, handler(guest, a, b));
  },
  (handler, row, tape) => (guest, a, b, c) => {
    tape.begin(row, a, b, c);
    return given(tape, handler(guest, a, b, c));
  },
  (handler, row, tape) => (guest, a, b, c, d) => {
    tape.begin(row, a, b, c, d);
    return given(tape, handler(guest, a, b, c, d));
  },
];

function given(tape: Tape, value: unknown): unknown {
  // Numbers and bytes first: walking their prototypes to see that they are no promise would cost more than the rest.
  if (typeof value !== 'number' && !ArrayBuffer.isView(value) && value instanceof Promise) {
    return value.then((settled) => {
      tape.gives(settled);
      return settled;
    });
  }
  tape.gives(value);
  return value;
}

/** A guest's memory whose texts are told to the tape as they are read. */
export class TapedMemory extends GuestMemory {
  readonly #tape: Tape;

  constructor(tape: Tape) {
    super();
    this.#tape = tape;
  }

  override readText(ptr: number, length: number): string {
    this.#tape.passesBytes(this, ptr, length);
    return super.readText(ptr, length);
  }
}
