import { Failure } from '../../abi/errno.ts';
import type { GuestMemory } from '../../abi/memory.ts';
import { errnoOrdinal, type WitFunction } from '../../abi/wit.ts';
import { type Handover, type Later, u32, type Value } from '../binding/marshal.ts';
import { RECORD_BYTES } from '../hostcalls/epoll.ts';
import type { Body } from '../hostcalls/table.ts';
import { trapGuest } from '../uncatchable.ts';

/** `cabi_realloc` of the guest: `(old_ptr, old_size, align, new_size) → ptr`. */
export type Realloc = (oldPtr: number, oldSize: number, align: number, newSize: number) => number;

/** The memory that one core module of a component works in, and how the host gets room in it. */
export interface GuestHeap {
  readonly memory: GuestMemory;
  readonly realloc: Realloc;
}

type Store = (value: Value, at: number | undefined) => number | bigint | undefined;

const OK = 0;
const ERR = 1;

/** A `result<_, errno>`, one with a number, and one with a list: how it lies in memory, and where its payload begins. */
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

/** A component has no buffers of its own, so there is always room. */
const room = () => Number.POSITIVE_INFINITY;

/** The canonical ABI's way to hand a result over: flat if it is one number, else into the guest's return area. */
export function loweredResult(heap: GuestHeap, { value, fallible }: WitFunction): Handover {
  const store = fallible ? storeOf(heap, value) : (given: Value) => given as number | bigint | undefined;
  const deliver: Handover['deliver'] = (given, at) =>
    isPromise(given) ? given.then((settled) => store(settled, at)) : store(given, at);
  return { deliver, deliverInto: deliver, room, fault };
}

// Bytes first: walking their prototypes to see that they are no promise would cost as much as copying a short body.
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

/** `result<list, errno>`. A command that gives nothing but success gives an empty text. */
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
  const area = returnArea(memory, at, listResult); // looked at last: the guest's realloc may have grown the memory
  const { words } = memory;
  words.setUint8(area, OK);
  words.setUint32(area + listResult.payloadAt, ptr, true);
  words.setUint32(area + LENGTH_AT, length / element.bytes, true);
  return undefined;
}

/** Room in the guest's memory, from its own allocator, which may answer with anything. */
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
