/*
 * Marshalling shared by the bindings of core modules and components: one adapter per shape of parameters, from pointers and
 * numbers to the arguments of a handler. Bindings differ only in how a result is delivered (`Handover`).
 *
 * Invariants: ranges are checked before anything is read (EFAULT); a text beyond its limit is not decoded; nothing read from
 * guest memory before an await or a callback is used after it.
 *
 * perf: bench/topics/hostcalls.ts. Adapters have fixed arity: rest parameters would cost more than most calls.
 */
import { type Call, type CallName, FRAME_BYTES, LOG_BYTES, NAME_BYTES, type TextLimit } from '../../abi/calls.ts';
import type { Failure } from '../../abi/errno.ts';
import type { GuestMemory } from '../../abi/memory.ts';
import type { Limits } from '../../port/limits.ts';
import type { CancellationScope } from '../cancellation-scope.ts';
import type { GuestState } from '../hostcalls/guest-state.ts';
import type { Body, HostcallTable } from '../hostcalls/table.ts';

/** Result of a handler, immediate or later. */
export type Value = number | Body | Failure | bigint | undefined;
export type Later = Value | Promise<Value>;

export type AnyHandler = (guest: GuestState, ...args: (number | string | Uint8Array | undefined)[]) => Later;
export type Import = (...args: number[]) => Later;

/** State that the imports of one instance share. */
export interface Binding {
  readonly guest: GuestState;
  readonly memory: GuestMemory;
  /** Calls made so far, by row of the table. */
  readonly counts: Float64Array;
  /** @default null: the guest has a dedicated thread */
  readonly scope?: CancellationScope | null;
}

type Delivered = number | bigint | undefined;

/**
 * Delivers a handler's result to the guest. The arguments after the call's parameters say where: an out-buffer
 * `(at, lengthAt)`, a return area `at`, or nothing.
 */
export interface Handover {
  readonly deliver: (value: Later, at: number | undefined) => Delivered | Promise<Delivered>;
  /** For a call with an out-buffer. */
  readonly deliverInto: (
    value: Later,
    at: number | undefined,
    lengthAt: number | undefined,
    room: number,
  ) => Delivered | Promise<Delivered>;
  /** Capacity of the out-buffer, negative if it is outside the memory. Checked before the call. */
  readonly room: (at: number | undefined, lengthAt: number | undefined) => number;
  /** Result for a range outside the memory. */
  readonly fault: () => number;
}

/** Creates the import of a call from its handler. */
export type Shape = (handler: AnyHandler, binding: Binding, handover: Handover, index: number, row: Call) => Import;

export const handlerOf = (table: HostcallTable, row: Call): AnyHandler => table[row.name as CallName] as AnyHandler;

export const shapeName = (row: Call): string => row.params.map(({ kind }) => kind).join(' ');

const one: Shape =
  (handler, { guest, counts }, { deliver }, index) =>
  (a, at) => {
    count(counts, index);
    return deliver(handler(guest, a), at);
  };

const pair: Shape =
  (handler, { guest, counts }, { deliver }, index) =>
  (a, b, at) => {
    count(counts, index);
    return deliver(handler(guest, a, b), at);
  };

const scalarAndText: Shape = (handler, { guest, memory, counts }, { deliver, fault }, index, row) => {
  const limit = textLimit(guest.limits, row, 1);
  return (a, p, n, at) => {
    count(counts, index);
    const ptr = u32(p);
    const length = u32(n);
    if (!memory.holds(ptr, length)) return fault();
    return deliver(handler(guest, a, text(memory, ptr, length, limit)), at);
  };
};

/** Adapters by shape. Shapes whose parameters differ between bindings are in the bindings. */
export const shapes: Readonly<Record<string, Shape>> = {
  '':
    (handler, { guest, counts }, { deliver }, index) =>
    (at) => {
      count(counts, index);
      return deliver(handler(guest), at);
    },

  i32: one,
  fd: one,
  'fd i32': pair,
  'i32 i32': pair,

  'fd i32 fd i32':
    (handler, { guest, counts }, { deliver }, index) =>
    (a, b, c, d, at) => {
      count(counts, index);
      return deliver(handler(guest, a, b, c, d), at);
    },

  text(handler, { guest, memory, counts }, { deliver, fault }, index, row) {
    const limit = textLimit(guest.limits, row, 0);
    return (p, n, at) => {
      count(counts, index);
      const ptr = u32(p);
      const length = u32(n);
      if (!memory.holds(ptr, length)) return fault();
      return deliver(handler(guest, text(memory, ptr, length, limit)), at);
    };
  },

  'i32 text': scalarAndText,
  'fd text': scalarAndText,

  'fd bytes'(handler, { guest, memory, counts }, { deliver, fault }, index, row) {
    const limit = textLimit(guest.limits, row, 1);
    return (fd, p, n, at) => {
      count(counts, index);
      const ptr = u32(p);
      const length = u32(n);
      if (!memory.holds(ptr, length)) return fault();
      return deliver(handler(guest, fd, length > limit ? undefined : memory.bytes.subarray(ptr, ptr + length)), at);
    };
  },

  'fd text text'(handler, { guest, memory, counts }, { deliver, fault }, index, row) {
    const limit1 = textLimit(guest.limits, row, 1);
    const limit2 = textLimit(guest.limits, row, 2);
    return (fd, p1, n1, p2, n2, at) => {
      count(counts, index);
      const ptr1 = u32(p1);
      const length1 = u32(n1);
      const ptr2 = u32(p2);
      const length2 = u32(n2);
      if (!memory.holds(ptr1, length1) || !memory.holds(ptr2, length2)) return fault();
      const first = text(memory, ptr1, length1, limit1);
      const second = text(memory, ptr2, length2, limit2);
      return deliver(handler(guest, fd, first, second), at);
    };
  },

  out:
    (handler, { guest, counts }, { room, deliverInto, fault }, index) =>
    (at, lengthAt) => {
      count(counts, index);
      const capacity = room(at, lengthAt);
      if (capacity < 0) return fault();
      return deliverInto(handler(guest, capacity), at, lengthAt, capacity);
    },

  'fd out':
    (handler, { guest, counts }, { room, deliverInto, fault }, index) =>
    (fd, at, lengthAt) => {
      count(counts, index);
      const capacity = room(at, lengthAt);
      if (capacity < 0) return fault();
      return deliverInto(handler(guest, fd, capacity), at, lengthAt, capacity);
    },

  'text out'(handler, { guest, memory, counts }, { room, deliverInto, fault }, index, row) {
    const limit = textLimit(guest.limits, row, 0);
    return (p, n, at, lengthAt) => {
      count(counts, index);
      const ptr = u32(p);
      const length = u32(n);
      const capacity = room(at, lengthAt);
      if (capacity < 0 || !memory.holds(ptr, length)) return fault();
      return deliverInto(handler(guest, text(memory, ptr, length, limit), capacity), at, lengthAt, capacity);
    };
  },

  'fd text out'(handler, { guest, memory, counts }, { room, deliverInto, fault }, index, row) {
    const limit = textLimit(guest.limits, row, 1);
    return (fd, p, n, at, lengthAt) => {
      count(counts, index);
      const ptr = u32(p);
      const length = u32(n);
      const capacity = room(at, lengthAt);
      if (capacity < 0 || !memory.holds(ptr, length)) return fault();
      return deliverInto(handler(guest, fd, text(memory, ptr, length, limit), capacity), at, lengthAt, capacity);
    };
  },

  'fd text text out'(handler, { guest, memory, counts }, { room, deliverInto, fault }, index, row) {
    const limit1 = textLimit(guest.limits, row, 1);
    const limit2 = textLimit(guest.limits, row, 2);
    return (fd, p1, n1, p2, n2, at, lengthAt) => {
      count(counts, index);
      const ptr1 = u32(p1);
      const length1 = u32(n1);
      const ptr2 = u32(p2);
      const length2 = u32(n2);
      const capacity = room(at, lengthAt);
      if (capacity < 0 || !memory.holds(ptr1, length1) || !memory.holds(ptr2, length2)) return fault();
      const first = text(memory, ptr1, length1, limit1);
      const second = text(memory, ptr2, length2, limit2);
      return deliverInto(handler(guest, fd, first, second, capacity), at, lengthAt, capacity);
    };
  },
};

export function count(counts: Float64Array, index: number): void {
  counts[index] = (counts[index] as number) + 1;
}

export const u32 = (value: number | undefined): number => (value as number) >>> 0;

/** Limit of a parameter in bytes; the argument of a command is bounded like a session parameter. */
export function textLimit(limits: Limits, row: Call, index: number): number {
  const param = row.params[index];
  const limit: TextLimit = param?.kind === 'arg' ? 'param' : (param?.limit ?? 'name');
  if (limit === 'message') return limits.max_message_bytes;
  if (limit === 'param') return limits.max_param_bytes;
  if (limit === 'frame') return FRAME_BYTES;
  return limit === 'log' ? LOG_BYTES : NAME_BYTES;
}

/** Decodes a text; undefined beyond its limit, which may be gigabytes. Precondition: the memory holds the range. */
export function text(memory: GuestMemory, ptr: number, length: number, limit: number): string | undefined {
  return length > limit ? undefined : memory.readText(ptr, length);
}
