import { fail } from '../../abi/errno.ts';
import { GuestMemory } from '../../abi/memory.ts';
import { HANDED_BACK } from '../../abi/wit.ts';
import {
  type Binding,
  count,
  type Handover,
  handlerOf,
  type Shape,
  shapeName,
  shapes,
  text,
  textLimit,
  u32,
} from '../binding/marshal.ts';
import type { GuestState } from '../hostcalls/guest-state.ts';
import type { HostcallTable } from '../hostcalls/table.ts';
import { type Leash, suspending } from '../leash.ts';
import { trapGuest } from '../uncatchable.ts';
import { type ComponentCall, commandArgument, componentCalls, hostInterface } from './calls.ts';
import { type GuestHeap, loweredResult, type Realloc } from './lowering.ts';

/** What all core modules of one component share. */
export interface FastLane {
  readonly table: HostcallTable;
  readonly guest: GuestState;
  readonly counts: Float64Array;
  /** @default one of its own for each */
  readonly newMemory?: () => GuestMemory;
  /** @default null: the guest has its thread for itself */
  readonly leash?: Leash | null;
  /** What else a module imports that gives way. @default nothing */
  readonly turnImports?: (module: WebAssembly.Module) => WebAssembly.Imports;
}

/** Some toolchains let the module import its memory and allocator from here instead of exporting them. */
const SURROUNDINGS = 'env';

/**
 * Instantiates a core module of a component with our functions in the place of jco's wherever the module imports
 * `spear:host` by its name. What the glue would have passed there does the same, a hundred times slower.
 */
export function instantiateInFastLane(
  lane: FastLane,
  module: WebAssembly.Module,
  imports: WebAssembly.Imports = {},
): WebAssembly.Instance {
  const ours = Object.keys(imports).filter((name) => hostInterface(name) !== undefined);
  const heap = ours.length > 0 ? heapOf(lane, module, imports) : undefined;
  const turns = lane.turnImports?.(module);
  if (!heap) return new WebAssembly.Instance(module, { ...imports, ...turns });

  const { guest, counts, leash = null } = lane;
  const binding: Binding = { guest, counts, memory: heap.memory, leash };
  const direct = Object.fromEntries(
    ours.map((name) => [name, { ...imports[name], ...bindInterface(lane.table, binding, heap, name, imports[name]) }]),
  );
  const instance = new WebAssembly.Instance(module, { ...imports, ...direct, ...turns });
  heap.attach(instance.exports);
  return instance;
}

interface AttachedLater extends GuestHeap {
  /** Until then no pointer of the guest is valid: a start function runs before its instance can be reached. */
  readonly attach: (exports: WebAssembly.Instance['exports']) => void;
}

/**
 * Where the module has its memory and allocator: what it imports from its surroundings, else what it exports. The proof
 * of the fast lane rests on the same rule.
 */
function heapOf(
  { newMemory = () => new GuestMemory() }: FastLane,
  module: WebAssembly.Module,
  imports: WebAssembly.Imports,
): AttachedLater | undefined {
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
  return row.mode === 'suspending' ? suspending(binding.leash ?? null, bound) : bound;
}

/** Whatever it is given, the return area comes last. */
const absent =
  (answer: () => ReturnType<ReturnType<typeof handlerOf>>, { deliver }: Handover) =>
  (...args: number[]) =>
    deliver(answer(), args.at(-1));

const componentShapes: Readonly<Record<string, Shape>> = {
  ...shapes,

  // cchat-write-fn: there is no function table that the host could reach
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
