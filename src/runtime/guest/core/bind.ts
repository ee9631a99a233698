import { type Call, calls } from '../../abi/calls.ts';
import { Failure, fail } from '../../abi/errno.ts';
import type { GuestMemory } from '../../abi/memory.ts';
import {
  type Binding,
  count,
  type Handover,
  handlerOf,
  type Later,
  type Shape,
  shapeName,
  shapes,
  text,
  textLimit,
  u32,
  type Value,
} from '../binding/marshal.ts';
import { suspending } from '../cancellation-scope.ts';
import { RECORD_BYTES } from '../hostcalls/epoll.ts';
import type { HostcallTable } from '../hostcalls/table.ts';

const EFAULT = fail.EFAULT.returned;
const ENOSPC = fail.ENOSPC.returned;
const EINVAL = fail.EINVAL.returned;

/** UTF-8 bytes per UTF-16 unit. */
const MOST_BYTES_PER_UNIT = 3;

type Result = number | bigint | undefined;

const rows: ReadonlyMap<string, { readonly row: Call; readonly index: number }> = new Map(
  calls.map((row: Call, index) => [row.name, { row, index }]),
);

/** Imports of module `spear`, by name. Only this file turns failures into negative numbers. */
export function bindCoreImports(table: HostcallTable, binding: Binding): (name: string) => unknown {
  const handover = coreHandover(binding.memory);
  return (name) => {
    const found = rows.get(name);
    if (found === undefined) return undefined;
    const { row, index } = found;
    const handler = handlerOf(table, row);
    if (row.support === 'absent') return () => later(handler(binding.guest));
    const shape = coreShapes[shapeName(row)];
    if (!shape) throw new Error(`no core adapter for the parameters of ${row.name}`);
    const bound = shape(handler, binding, handover, index, row);
    return row.mode === 'suspending' ? suspending(binding.scope ?? null, bound) : bound;
  };
}

const fault = () => EFAULT;

/** Delivers a number, a negative errno, or bytes by the out-buffer convention (capacity in, length out). */
function coreHandover(memory: GuestMemory): Handover {
  return {
    deliver: later,
    deliverInto(body, out, outLen, capacity) {
      // perf: bytes first, because `instanceof Promise` on them costs as much as copying a short body
      if (ArrayBuffer.isView(body)) return writeBytes(body as Uint8Array, memory, out, outLen, capacity);
      if (body instanceof Promise) return body.then((value) => writeOut(value, memory, out, outLen, capacity));
      return writeOut(body, memory, out, outLen, capacity);
    },
    room: (out, outLen) => memory.outCapacity(u32(out), u32(outLen)),
    fault,
  };
}

const coreShapes: Readonly<Record<string, Shape>> = {
  ...shapes,

  // cchat_write_fn: the index into the function table precedes the text
  'fd i32 text'(handler, { guest, memory, counts }, { deliver }, index, row) {
    const limit = textLimit(guest.limits, row, 2);
    return (fd, a, p, n) => {
      count(counts, index);
      const ptr = u32(p);
      const length = u32(n);
      if (!memory.holds(ptr, length)) return EFAULT;
      return deliver(handler(guest, fd, a, text(memory, ptr, length, limit)), undefined);
    };
  },

  // cchat_recv, mcp_result. perf: bench/topics/hostcalls.ts; the most frequent shape copies without `deliverInto`
  'fd out':
    (handler, { guest, memory, counts }, { deliverInto }, index) =>
    (fd, out, outLen) => {
      count(counts, index);
      const capacity = memory.outCapacity(u32(out), u32(outLen));
      if (capacity < 0) return EFAULT;
      const body = handler(guest, fd, capacity);
      if (ArrayBuffer.isView(body) && body.byteLength <= capacity) {
        return memory.writeOut(body as Uint8Array, u32(out), u32(outLen));
      }
      return deliverInto(body, out, outLen, capacity);
    },

  // spear_epoll_wait: an out-buffer whose success counts records, and whose least capacity is one of them
  'fd out i32':
    (handler, { guest, memory, counts }, { room }, index) =>
    (fd, out, outLen, a) => {
      count(counts, index);
      const capacity = room(out, outLen);
      if (capacity < 0) return EFAULT;
      const found = handler(guest, fd, capacity, a);
      if (ArrayBuffer.isView(found)) return recordsIn(memory.writeOut(found as Uint8Array, u32(out), u32(outLen)));
      if (!(found instanceof Promise)) return writeRecords(found, memory, out, outLen, capacity);
      return found.then((records) => writeRecords(records, memory, out, outLen, capacity));
    },

  // the argument of a command goes in or comes out
  'fd i32 arg'(handler, { guest, memory, counts }, { room, deliverInto }, index, row) {
    const limit = textLimit(guest.limits, row, 2);
    return (fd, cmd, arg, argLen) => {
      count(counts, index);
      const command = row.commands[cmd as number];
      if (!command) return EINVAL;
      if (command.arg === 'none') return later(handler(guest, fd, cmd));
      const capacity = room(arg, argLen);
      if (capacity < 0) return EFAULT;
      if (command.arg === 'out') return deliverInto(handler(guest, fd, cmd, capacity), arg, argLen, capacity);
      return later(handler(guest, fd, cmd, text(memory, u32(arg), capacity, limit)));
    };
  },
};

function later(value: Later): Result | Promise<Result> {
  if (typeof value === 'number') return value;
  if (value instanceof Failure) return value.returned;
  if (value instanceof Promise) return value.then(later);
  return value as Result;
}

/** Memory only grows during a call, so ranges checked before it are still valid. */
function writeOut(
  body: Value,
  memory: GuestMemory,
  out: number | undefined,
  outLen: number | undefined,
  capacity: number,
): number {
  if (ArrayBuffer.isView(body)) return writeBytes(body as Uint8Array, memory, out, outLen, capacity);
  if (typeof body === 'number') return body;
  if (typeof body !== 'string') return (body as Failure).returned;
  // perf: the exact length is not computed if the longest encoding fits
  const most = body.length * MOST_BYTES_PER_UNIT;
  const length = most <= capacity ? most : Buffer.byteLength(body);
  if (length > capacity) return tooSmall(memory, outLen, length);
  const written = memory.writeText(body, u32(out), length);
  memory.words.setUint32(u32(outLen), written, true);
  return written;
}

const recordsIn = (bytes: number): number => (bytes / RECORD_BYTES) | 0;

function writeRecords(
  found: Value,
  memory: GuestMemory,
  out: number | undefined,
  outLen: number | undefined,
  capacity: number,
): number {
  if (ArrayBuffer.isView(found)) return recordsIn(memory.writeOut(found as Uint8Array, u32(out), u32(outLen)));
  if (found === fail.ENOSPC) memory.words.setUint32(u32(outLen), RECORD_BYTES, true);
  return writeOut(found, memory, out, outLen, capacity);
}

function writeBytes(
  body: Uint8Array,
  memory: GuestMemory,
  out: number | undefined,
  outLen: number | undefined,
  capacity: number,
): number {
  if (body.byteLength > capacity) return tooSmall(memory, outLen, body.byteLength);
  return memory.writeOut(body, u32(out), u32(outLen));
}

function tooSmall(memory: GuestMemory, outLen: number | undefined, needed: number): number {
  memory.words.setUint32(u32(outLen), needed, true);
  return ENOSPC;
}
