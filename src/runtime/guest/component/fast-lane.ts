/*
 * Fast lane of components: core modules inside a component import host functions directly, in the canonical ABI, instead of
 * through jco's glue, which is a hundred times slower (perf: bench/topics/component.ts).
 *
 * Used only for components for which preparation proved that their `spear:host` imports are the outer ones. Handlers are the
 * same as in the glue; only arguments and results are lowered here. Memory for results comes from the guest's own
 * `cabi_realloc`, whose answers are checked, and which may grow the memory: views are read again after it.
 */
import { Failure, fail } from '../../abi/errno.ts';
import { GuestMemory } from '../../abi/memory.ts';
import { errnoOrdinal, HANDED_BACK, type WitFunction } from '../../abi/wit.ts';
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
import { type CancellationScope, suspending } from '../cancellation-scope.ts';
import { RECORD_BYTES } from '../hostcalls/epoll.ts';
import type { GuestState } from '../hostcalls/guest-state.ts';
import type { Body, HostcallTable } from '../hostcalls/table.ts';
import { trapGuest } from '../trap.ts';
import { type ComponentCall, commandArgument, componentCalls, hostInterface } from './calls.ts';

/** State that all core modules of one component share. */
export interface FastLane {
  readonly table: HostcallTable;
  readonly guest: GuestState;
  readonly counts: Float64Array;
  /** @default a new one for each module */
  readonly newMemory?: () => GuestMemory;
  /** @default null: the guest has a dedicated thread */
  readonly scope?: CancellationScope | null;
  /** Imports of an instrumented module. @default none */
  readonly preemptionImports?: (module: WebAssembly.Module) => WebAssembly.Imports;
}

/** Module from which some toolchains import memory and allocator instead of exporting them. */
const SURROUNDINGS = 'env';

/**
 * Instantiates a core module with host functions instead of the glue's wherever it imports `spear:host` by name.
 */
export function instantiateInFastLane(
  lane: FastLane,
  module: WebAssembly.Module,
  imports: WebAssembly.Imports = {},
): WebAssembly.Instance {
  const ours = Object.keys(imports).filter((name) => hostInterface(name) !== undefined);
  const heap = ours.length > 0 ? heapOf(lane, module, imports) : undefined;
  const turns = lane.preemptionImports?.(module);
  if (!heap) return new WebAssembly.Instance(module, { ...imports, ...turns });

  const { guest, counts, scope = null } = lane;
  const binding: Binding = { guest, counts, memory: heap.memory, scope };
  const direct = Object.fromEntries(
    ours.map((name) => [name, { ...imports[name], ...bindInterface(lane.table, binding, heap, name, imports[name]) }]),
  );
  const instance = new WebAssembly.Instance(module, { ...imports, ...direct, ...turns });
  heap.attach(instance.exports);
  return instance;
}

interface LazyHeap extends GuestHeap {
  /** Before this no guest pointer is valid: a start function runs before its instance exists. */
  readonly attach: (exports: WebAssembly.Instance['exports']) => void;
}

/**
 * Memory and allocator of the module: imported from `env`, else exported. The proof of the fast lane uses the same rule.
 */
function heapOf(
  { newMemory = () => new GuestMemory() }: FastLane,
  module: WebAssembly.Module,
  imports: WebAssembly.Imports,
): LazyHeap | undefined {
  const exported = new Set(WebAssembly.Module.exports(module).map(({ name }) => name));
  const wanted = WebAssembly.Module.imports(module).filter((one) => one.module === SURROUNDINGS);
  const imported = (name: string) =>
    wanted.some((one) => one.name === name) ? imports[SURROUNDINGS]?.[name] : undefined;
  const importedMemory = imported('memory');
  const importedRealloc = imported('cabi_realloc');
  if (!importedMemory && !exported.has('memory')) return undefined;
  if (!importedRealloc && !exported.has('cabi_realloc')) return undefined;

  const memory = newMemory();
  let realloc: Realloc = () => trapGuest('a hostcall returned a value before the component was instantiated');
  return {
    memory,
    realloc: (oldPtr, oldSize, align, newSize) => realloc(oldPtr, oldSize, align, newSize),
    attach(exports) {
      memory.attach((importedMemory ?? exports.memory) as WebAssembly.Memory);
      realloc = (importedRealloc ?? exports.cabi_realloc) as Realloc;
    },
  };
}

function bindInterface(
  table: HostcallTable,
  binding: Binding,
  heap: GuestHeap,
  importName: string,
  wanted: Record<string, unknown> = {},
): Record<string, unknown> {
  const name = hostInterface(importName);
  const own = componentCalls.filter(({ wit }) => wit.interface === name && Object.hasOwn(wanted, wit.name));
  return Object.fromEntries(own.map((call) => [call.wit.name, bindCall(table, binding, heap, call)]));
}

function bindCall(table: HostcallTable, binding: Binding, heap: GuestHeap, call: ComponentCall): unknown {
  const { row, index, wit } = call;
  const handler = handlerOf(table, row);
  const handover = loweredResult(heap, wit);
  if (row.support === 'absent') return absent(() => handler(binding.guest), handover);
  const shape = componentShapes[shapeName(row)];
  if (!shape) throw new Error(`no component adapter for the parameters of ${row.name}`);
  const bound = shape(handler, binding, handover, index, row);
  return row.mode === 'suspending' ? suspending(binding.scope ?? null, bound) : bound;
}

/** The return area is the last argument. */
const absent =
  (answer: () => ReturnType<ReturnType<typeof handlerOf>>, { deliver }: Handover) =>
  (...args: number[]) =>
    deliver(answer(), args.at(-1));

const componentShapes: Readonly<Record<string, Shape>> = {
  ...shapes,

  // cchat-write-fn: a component has no function table, so its tools are always handed back
  'fd i32 text'(handler, { guest, memory, counts }, { deliver, fault }, index, row) {
    const limit = textLimit(guest.limits, row, 2);
    return (fd, p, n, at) => {
      count(counts, index);
      const ptr = u32(p);
      const length = u32(n);
      if (!memory.holds(ptr, length)) return fault();
      return deliver(handler(guest, fd, HANDED_BACK, text(memory, ptr, length, limit)), at);
    };
  },

  'fd out i32':
    (handler, { guest, counts }, { room, deliver }, index) =>
    (fd, a, at) => {
      count(counts, index);
      return deliver(handler(guest, fd, room(at, undefined), a), at);
    },

  'fd i32 arg'(handler, { guest, memory, counts }, { deliver, fault }, index, row) {
    const limit = textLimit(guest.limits, row, 2);
    return (fd, cmd, p, n, at) => {
      count(counts, index);
      const ptr = u32(p);
      const length = u32(n);
      if (!memory.holds(ptr, length)) return fault();
      const command = row.commands[cmd as number];
      if (!command) return deliver(fail.EINVAL, at);
      const given = command.arg === 'in' ? text(memory, ptr, length, limit) : undefined;
      return deliver(handler(guest, fd, cmd, commandArgument(command, given)), at);
    };
  },
};

/** `cabi_realloc` of the guest: `(old_ptr, old_size, align, new_size) → ptr`. */
export type Realloc = (oldPtr: number, oldSize: number, align: number, newSize: number) => number;

/** Memory and allocator of one core module of a component. */
export interface GuestHeap {
  readonly memory: GuestMemory;
  readonly realloc: Realloc;
}

type Store = (value: Value, at: number | undefined) => number | bigint | undefined;

const OK = 0;
const ERR = 1;

/** Memory layout of a `result<_, errno>`: without a value, with a number, with a list. */
interface Layout {
  readonly align: number;
  readonly bytes: number;
  readonly payloadAt: number;
}
const bareResult: Layout = { align: 1, bytes: 2, payloadAt: 1 };
const numberResult: Layout = { align: 4, bytes: 8, payloadAt: 4 };
const listResult: Layout = { align: 4, bytes: 12, payloadAt: 4 };
const LENGTH_AT = 8;

const BYTE = { align: 1, bytes: 1 } as const;
const RECORD = { align: 4, bytes: RECORD_BYTES } as const;

const fault = () => trapGuest('a hostcall received a string or list outside the guest memory');

/** Unlimited: the result is allocated in guest memory. */
const room = () => Number.POSITIVE_INFINITY;

/** Delivers results in the canonical ABI: flat if one number, else in the guest's return area. */
export function loweredResult(heap: GuestHeap, { value, fallible }: WitFunction): Handover {
  const store = fallible ? storeOf(heap, value) : (given: Value) => given as number | bigint | undefined;
  const deliver: Handover['deliver'] = (given, at) =>
    isPromise(given) ? given.then((settled) => store(settled, at)) : store(given, at);
  return { deliver, deliverInto: deliver, room, fault };
}

// perf: bytes first, because `instanceof Promise` on them costs as much as copying a short body.
const isPromise = (given: Later): given is Promise<Value> => !ArrayBuffer.isView(given) && given instanceof Promise;

function storeOf(heap: GuestHeap, value: WitFunction['value']): Store {
  const { memory } = heap;
  switch (value) {
    case 'none':
      return (given, at) => {
        const area = returnArea(memory, at, bareResult);
        if (given instanceof Failure) storeErrno(memory, area, bareResult, given);
        else memory.words.setUint8(area, OK);
        return undefined;
      };
    case 'string':
    case 'list<u8>':
      return (given, at) => storeBytes(heap, given, at, BYTE);
    case 'list<ready>':
      return (given, at) => storeBytes(heap, given, at, RECORD);
    default:
      return (given, at) => {
        const area = returnArea(memory, at, numberResult);
        if (given instanceof Failure) storeErrno(memory, area, numberResult, given);
        else {
          const { words } = memory;
          words.setUint8(area, OK);
          words.setInt32(area + numberResult.payloadAt, given as number, true);
        }
        return undefined;
      };
  }
}

/** Stores a `result<list, errno>`; a number (plain success) becomes an empty list. */
function storeBytes(
  heap: GuestHeap,
  given: Value,
  at: number | undefined,
  element: Pick<Layout, 'align' | 'bytes'>,
): undefined {
  const { memory } = heap;
  if (given instanceof Failure) {
    storeErrno(memory, returnArea(memory, at, listResult), listResult, given);
    return undefined;
  }
  const body = typeof given === 'number' ? '' : (given as Body);
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
  const ptr = length === 0 ? element.align : allocate(heap, element.align, length);
  if (length > 0) {
    if (typeof body === 'string') memory.writeText(body, ptr, length);
    else memory.bytes.set(body, ptr);
  }
  const area = returnArea(memory, at, listResult); // checked last: the guest's realloc may have grown the memory
  const { words } = memory;
  words.setUint8(area, OK);
  words.setUint32(area + listResult.payloadAt, ptr, true);
  words.setUint32(area + LENGTH_AT, length / element.bytes, true);
  return undefined;
}

/** Allocates with the guest's allocator, whose answer is untrusted. */
function allocate({ memory, realloc }: GuestHeap, align: number, length: number): number {
  const ptr = u32(realloc(0, 0, align, length));
  if (ptr % align !== 0) trapGuest(`cabi_realloc returned the address ${ptr}, which is not aligned to ${align}`);
  if (!memory.holds(ptr, length))
    trapGuest(`cabi_realloc returned ${length} bytes at ${ptr}, outside the guest memory`);
  return ptr;
}

function returnArea(memory: GuestMemory, at: number | undefined, { align, bytes }: Layout): number {
  const ptr = u32(at);
  if (ptr % align !== 0) trapGuest(`the return area at ${ptr} is not aligned to ${align}`);
  if (!memory.holds(ptr, bytes)) trapGuest(`the return area at ${ptr} is outside the guest memory`);
  return ptr;
}

function storeErrno(memory: GuestMemory, area: number, { payloadAt }: Layout, { name }: Failure): void {
  const { words } = memory;
  words.setUint8(area, ERR);
  words.setUint8(area + payloadAt, errnoOrdinal[name]);
}
