import { type Call, calls } from '../../abi/calls.ts';
import { GuestMemory } from '../../abi/memory.ts';
import type { ReplayLog } from '../../durable/guest/replay-log.ts';
import type { GuestState } from './guest-state.ts';
import type { HostcallTable } from './table.ts';

type Handler = (guest: GuestState, ...args: unknown[]) => unknown;

/**
 * Wraps the hostcalls so that the replay log sees the start, arguments and result of each. Texts read through
 * {@link RecordedMemory} are hashed there.
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

/** Also hashes texts, for a binding that receives them as JavaScript strings. */
export function recordedTexts(table: HostcallTable, replayLog: ReplayLog): HostcallTable {
  const wrapped = Object.entries(table as unknown as Readonly<Record<string, Handler>>).map(([name, handler]) => [
    name,
    (guest: GuestState, ...args: unknown[]) => {
      for (const text of args) if (typeof text === 'string') replayLog.hashText(text);
      return handler(guest, ...args);
    },
  ]);
  return Object.fromEntries(wrapped) as HostcallTable;
}

/** By arity. perf: rest parameters would cost more than most calls. */
const adapters: readonly ((handler: Handler, row: number, replayLog: ReplayLog) => Handler)[] = [
  (handler, row, replayLog) => (guest) => {
    replayLog.beginCall(row);
    return recordResult(replayLog, handler(guest));
  },
  (handler, row, replayLog) => (guest, a) => {
    replayLog.beginCall(row, a);
    return recordResult(replayLog, handler(guest, a));
  },
  (handler, row, replayLog) => (guest, a, b) => {
    replayLog.beginCall(row, a, b);
    return recordResult(replayLog, handler(guest, a, b));
  },
  (handler, row, replayLog) => (guest, a, b, c) => {
    replayLog.beginCall(row, a, b, c);
    return recordResult(replayLog, handler(guest, a, b, c));
  },
  (handler, row, replayLog) => (guest, a, b, c, d) => {
    replayLog.beginCall(row, a, b, c, d);
    return recordResult(replayLog, handler(guest, a, b, c, d));
  },
];

function recordResult(replayLog: ReplayLog, value: unknown): unknown {
  // perf: numbers and bytes first, because `instanceof Promise` on them costs more than the rest
  if (typeof value !== 'number' && !ArrayBuffer.isView(value) && value instanceof Promise) {
    return value.then((settled) => {
      replayLog.endCall(settled);
      return settled;
    });
  }
  replayLog.endCall(value);
  return value;
}

/** Guest memory that hashes the texts read from it. */
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
