import { type Call, calls } from '../../abi/calls.ts';
import { GuestMemory } from '../../abi/memory.ts';
import type { ReplayLog } from '../../durable/guest/replay-log.ts';
import type { GuestState } from './guest-state.ts';
import type { HostcallTable } from './table.ts';

type Handler = (guest: GuestState, ...args: unknown[]) => unknown;

/**
 * The hostcalls, each of them told to the replayLog: that it begins, what it passes, and what it comes to. Texts that arrive
 * through {@link RecordedMemory} were told already.
 */
export function recordedCalls(table: HostcallTable, replayLog: ReplayLog): HostcallTable {
  const rows: readonly Call[] = calls;
  const handlers = table as unknown as Readonly<Record<string, Handler>>;
  return Object.fromEntries(
    rows.map(({ name, params }, index) => [
      name,
      adapters[params.length]?.(handlers[name] as Handler, index, replayLog),
    ]),
  ) as unknown as HostcallTable;
}

/** The same for a binding that gets its texts as they are, and not from the guest's memory. */
export function recordedTexts(table: HostcallTable, replayLog: ReplayLog): HostcallTable {
  const onEvents = Object.entries(table as unknown as Readonly<Record<string, Handler>>).map(([name, handler]) => [
    name,
    (guest: GuestState, ...args: unknown[]) => {
      for (const text of args) if (typeof text === 'string') replayLog.hashText(text);
      return handler(guest, ...args);
    },
  ]);
  return Object.fromEntries(onEvents) as HostcallTable;
}

/** One of each arity: rest parameters would cost more than most of the calls. */
const adapters: readonly ((handler: Handler, row: number, replayLog: ReplayLog) => Handler)[] = [
  (handler, row, replayLog) => (guest) => {
    replayLog.beginCall(row);
    return given(replayLog, handler(guest));
  },
  (handler, row, replayLog) => (guest, a) => {
    replayLog.beginCall(row, a);
    return given(replayLog, handler(guest, a));
  },
  (handler, row, replayLog) => (guest, a, b) => {
    replayLog.beginCall(row, a, b);
    return given(replayLog, handler(guest, a, b));
  },
  (handler, row, replayLog) => (guest, a, b, c) => {
    replayLog.beginCall(row, a, b, c);
    return given(replayLog, handler(guest, a, b, c));
  },
  (handler, row, replayLog) => (guest, a, b, c, d) => {
    replayLog.beginCall(row, a, b, c, d);
    return given(replayLog, handler(guest, a, b, c, d));
  },
];

function given(replayLog: ReplayLog, value: unknown): unknown {
  // Numbers and bytes first: walking their prototypes to see that they are no promise would cost more than the rest.
  if (typeof value !== 'number' && !ArrayBuffer.isView(value) && value instanceof Promise) {
    return value.then((settled) => {
      replayLog.endCall(settled);
      return settled;
    });
  }
  replayLog.endCall(value);
  return value;
}

/** A guest's memory whose texts are told to the replayLog as they are read. */
export class RecordedMemory extends GuestMemory {
  readonly #replayLog: ReplayLog;

  constructor(replayLog: ReplayLog) {
    super();
    this.#replayLog = replayLog;
  }

  override readText(ptr: number, length: number): string {
    this.#replayLog.hashBytes(this, ptr, length);
    return super.readText(ptr, length);
  }
}
