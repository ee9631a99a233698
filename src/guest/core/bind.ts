import { type Call, type CallName, calls, LOG_BYTES, NAME_BYTES, type TextLimit } from '../../abi/calls.ts';
import { Failure, fail } from '../../abi/errno.ts';
import type { GuestMemory } from '../../abi/memory.ts';
import type { Limits } from '../../config/limits.ts';
import { RECORD_BYTES } from '../../hostcalls/epoll.ts';
import type { GuestState } from '../../hostcalls/guest-state.ts';
import type { Body, HostcallTable } from '../../hostcalls/table.ts';

type Value = number | Body | Failure | bigint | undefined;
type Later = Value | Promise<Value>;
type AnyHandler = (guest: GuestState, ...args: (number | string | undefined)[]) => Later;
type Import = (...args: number[]) => Later;

/** What the imports of one instance are made from. */
export interface Binding {
  readonly guest: GuestState;
  readonly memory: GuestMemory;
  /** Calls made so far, by row of the table. */
  readonly counts: Float64Array;
}

const EFAULT = fail.EFAULT.returned;
const ENOSPC = fail.ENOSPC.returned;
const EINVAL = fail.EINVAL.returned;

/** The imports of module `spear`: the only place that sees pointers and makes negative numbers. */
export function bindCoreImports(table: HostcallTable, binding: Binding): Record<string, unknown> {
  return Object.fromEntries(
    calls.map((row: Call, index) => {
      const handler = table[row.name as CallName] as AnyHandler;
      if (row.support === 'absent') return [row.name, () => later(handler(binding.guest))];
      const shape = shapes[row.params.map(({ kind }) => kind).join(' ')];
      if (!shape) throw new Error(`no core adapter for the parameters of ${row.name}`);
      const bound = shape(handler, binding, index, row);
      return [row.name, row.mode === 'suspending' ? new WebAssembly.Suspending(bound) : bound];
    }),
  );
}

/** One adapter per shape of parameters, of fixed arity: rest parameters would cost more than most of the calls. */
const shapes: Readonly<Record<string, (handler: AnyHandler, binding: Binding, index: number, row: Call) => Import>> = {
  '':
    (handler, { guest, counts }, index) =>
    () => {
      count(counts, index);
      return later(handler(guest));
    },

  i32:
    (handler, { guest, counts }, index) =>
    (a) => {
      count(counts, index);
      return later(handler(guest, a));
    },

  fd:
    (handler, { guest, counts }, index) =>
    (fd) => {
      count(counts, index);
      return later(handler(guest, fd));
    },

  'fd i32': (handler, binding, index) => pair(handler, binding, index),
  'i32 i32': (handler, binding, index) => pair(handler, binding, index),

  'fd i32 fd i32':
    (handler, { guest, counts }, index) =>
    (a, b, c, d) => {
      count(counts, index);
      return later(handler(guest, a, b, c, d));
    },

  text(handler, { guest, memory, counts }, index, row) {
    const limit = textLimit(guest.limits, row, 0);
    return (p, n) => {
      count(counts, index);
      const ptr = u32(p);
      const length = u32(n);
      if (!memory.holds(ptr, length)) return EFAULT;
      return later(handler(guest, text(memory, ptr, length, limit)));
    };
  },

  'i32 text': (handler, binding, index, row) => scalarAndText(handler, binding, index, row),
  'fd text': (handler, binding, index, row) => scalarAndText(handler, binding, index, row),

  'fd i32 text'(handler, { guest, memory, counts }, index, row) {
    const limit = textLimit(guest.limits, row, 2);
    return (fd, a, p, n) => {
      count(counts, index);
      const ptr = u32(p);
      const length = u32(n);
      if (!memory.holds(ptr, length)) return EFAULT;
      return later(handler(guest, fd, a, text(memory, ptr, length, limit)));
    };
  },

  'fd text text'(handler, { guest, memory, counts }, index, row) {
    const limit1 = textLimit(guest.limits, row, 1);
    const limit2 = textLimit(guest.limits, row, 2);
    return (fd, p1, n1, p2, n2) => {
      count(counts, index);
      const ptr1 = u32(p1);
      const length1 = u32(n1);
      const ptr2 = u32(p2);
      const length2 = u32(n2);
      if (!memory.holds(ptr1, length1) || !memory.holds(ptr2, length2)) return EFAULT;
      return later(handler(guest, fd, text(memory, ptr1, length1, limit1), text(memory, ptr2, length2, limit2)));
    };
  },

  out:
    (handler, { guest, memory, counts }, index) =>
    (out, outLen) => {
      count(counts, index);
      const capacity = outCapacity(memory, out, outLen);
      if (capacity < 0) return EFAULT;
      return intoBuffer(handler(guest, capacity), memory, out, outLen, capacity);
    },

  'fd out':
    (handler, { guest, memory, counts }, index) =>
    (fd, out, outLen) => {
      count(counts, index);
      const capacity = outCapacity(memory, out, outLen);
      if (capacity < 0) return EFAULT;
      return intoBuffer(handler(guest, fd, capacity), memory, out, outLen, capacity);
    },

  'text out'(handler, { guest, memory, counts }, index, row) {
    const limit = textLimit(guest.limits, row, 0);
    return (p, n, out, outLen) => {
      count(counts, index);
      const ptr = u32(p);
      const length = u32(n);
      const capacity = outCapacity(memory, out, outLen);
      if (capacity < 0 || !memory.holds(ptr, length)) return EFAULT;
      return intoBuffer(handler(guest, text(memory, ptr, length, limit), capacity), memory, out, outLen, capacity);
    };
  },

  'fd text text out'(handler, { guest, memory, counts }, index, row) {
    const limit1 = textLimit(guest.limits, row, 1);
    const limit2 = textLimit(guest.limits, row, 2);
    return (fd, p1, n1, p2, n2, out, outLen) => {
      count(counts, index);
      const ptr1 = u32(p1);
      const length1 = u32(n1);
      const ptr2 = u32(p2);
      const length2 = u32(n2);
      const capacity = outCapacity(memory, out, outLen);
      if (capacity < 0 || !memory.holds(ptr1, length1) || !memory.holds(ptr2, length2)) return EFAULT;
      const first = text(memory, ptr1, length1, limit1);
      const second = text(memory, ptr2, length2, limit2);
      return intoBuffer(handler(guest, fd, first, second, capacity), memory, out, outLen, capacity);
    };
  },

  // spear_epoll_wait: an out-buffer whose success counts records, and whose least capacity is one of them
  'fd out i32':
    (handler, { guest, memory, counts }, index) =>
    (fd, out, outLen, a) => {
      count(counts, index);
      const capacity = outCapacity(memory, out, outLen);
      if (capacity < 0) return EFAULT;
      const finish = (found: Value) => {
        if (found === fail.ENOSPC) memory.words.setUint32(u32(outLen), RECORD_BYTES, true);
        const written = writeOut(found, memory, out, outLen, capacity);
        return written < 0 ? written : written / RECORD_BYTES;
      };
      const found = handler(guest, fd, capacity, a);
      return found instanceof Promise ? found.then(finish) : finish(found);
    },

  'fd i32 arg':
    (handler, { guest, memory, counts }, index, row) =>
    (fd, cmd, arg, argLen) => {
      count(counts, index);
      const command = row.commands[cmd];
      if (!command) return EINVAL;
      if (command.arg === 'none') return later(handler(guest, fd, cmd));
      const capacity = outCapacity(memory, arg, argLen);
      if (capacity < 0) return EFAULT;
      if (command.arg === 'out') return intoBuffer(handler(guest, fd, cmd, capacity), memory, arg, argLen, capacity);
      return later(handler(guest, fd, cmd, text(memory, u32(arg), capacity, guest.limits.max_param_bytes)));
    },
};

function pair(handler: AnyHandler, { guest, counts }: Binding, index: number): Import {
  return (a, b) => {
    count(counts, index);
    return later(handler(guest, a, b));
  };
}

function scalarAndText(handler: AnyHandler, { guest, memory, counts }: Binding, index: number, row: Call): Import {
  const limit = textLimit(guest.limits, row, 1);
  return (a, p, n) => {
    count(counts, index);
    const ptr = u32(p);
    const length = u32(n);
    if (!memory.holds(ptr, length)) return EFAULT;
    return later(handler(guest, a, text(memory, ptr, length, limit)));
  };
}

function count(counts: Float64Array, index: number): void {
  counts[index] = (counts[index] as number) + 1;
}

const u32 = (value: number | undefined): number => (value as number) >>> 0;

function textLimit(limits: Limits, row: Call, index: number): number {
  const limit: TextLimit = row.params[index]?.limit ?? 'name';
  if (limit === 'message') return limits.max_message_bytes;
  if (limit === 'param') return limits.max_param_bytes;
  return limit === 'log' ? LOG_BYTES : NAME_BYTES;
}

/** Precondition: the memory holds the range. A text beyond its limit is not decoded: it may be gigabytes. */
function text(memory: GuestMemory, ptr: number, length: number, limit: number): string | undefined {
  return length > limit ? undefined : memory.readText(ptr, length);
}

/** The capacity that the guest gave, or -1 if the buffer or its length leaves the memory. */
function outCapacity(memory: GuestMemory, out: number | undefined, outLen: number | undefined): number {
  if (!memory.holds(u32(outLen), 4)) return -1;
  const capacity = memory.words.getUint32(u32(outLen), true);
  return memory.holds(u32(out), capacity) ? capacity : -1;
}

function later(value: Later): Later {
  if (typeof value === 'number') return value;
  if (value instanceof Failure) return value.returned;
  if (value instanceof Promise) return value.then(later);
  return value;
}

function intoBuffer(
  body: Later,
  memory: GuestMemory,
  out: number | undefined,
  outLen: number | undefined,
  capacity: number,
): Later {
  if (body instanceof Promise) return body.then((value) => writeOut(value, memory, out, outLen, capacity));
  return writeOut(body, memory, out, outLen, capacity);
}

/** The out-buffer convention. The memory may have grown since the call began, never shrunk: the ranges still hold. */
function writeOut(
  body: Value,
  memory: GuestMemory,
  out: number | undefined,
  outLen: number | undefined,
  capacity: number,
): number {
  if (body instanceof Failure) return body.returned;
  if (typeof body === 'number') return body;
  const isText = typeof body === 'string';
  const length = isText ? Buffer.byteLength(body) : (body as Uint8Array).byteLength;
  if (length > capacity) {
    memory.words.setUint32(u32(outLen), length, true);
    return ENOSPC;
  }
  if (isText) memory.writeText(body, u32(out), length);
  else memory.bytes.set(body as Uint8Array, u32(out));
  memory.words.setUint32(u32(outLen), length, true);
  return length;
}
