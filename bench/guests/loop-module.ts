import { type Call, calls, coreParams } from '../../src/runtime/abi/calls.ts';
import { call, i32Const, localGet, type ValueType, WasmModule } from '../../test/support/wasm-encoder.ts';
import {
  branchIf,
  countDown,
  END,
  I32_ADD,
  I32_EQ,
  I32_STORE,
  I32_WRAP_I64,
  IF,
  LOOP,
  localSet,
  localTee,
} from './instructions.ts';

const asI32 = { i32: [], i64: I32_WRAP_I64, none: i32Const(0) };

/** The count of calls, the slot and what is stored there. */
const FIXED_PARAMS = 3;

/** Pairs that give back what they took, so that they can go on for ever. */
export const pairs = {
  'cchat_create + cchat_close': ['cchat_create', 'cchat_close'],
  'spear_epoll_create + spear_epoll_close': ['spear_epoll_create', 'spear_epoll_close'],
} as const;

/** A function of the bench that hostcalls are measured against, by the number of its parameters. */
export interface Yardstick {
  readonly name: string;
  readonly arity: number;
  readonly result: 'i32' | 'i64';
}

/**
 * A guest whose exports call one import over and over: `export(n, slot, length, ...args, 0)` calls it `n` times with the
 * same arguments and gives the last result. Before each call `length` is stored at `slot`, as a guest does with the
 * capacity of its buffer. The loop is inside the guest, as the calls of a real one are.
 */
export function loopModule(yardsticks: readonly Yardstick[], pages: number): Uint8Array {
  const module = new WasmModule();
  module.importMemory('bench', 'memory', { min: pages });
  const i32s = (count: number): ValueType[] => Array.from({ length: count }, () => 'i32');
  const rows: readonly Call[] = calls;
  const hostcalls = new Map(
    rows.map((row) => {
      const results: ValueType[] = row.result === 'none' ? [] : [row.result];
      const index = module.importFunction('spear', row.name, i32s(coreParams(row).length), results);
      return [row.name, { row, index }];
    }),
  );
  const bare = yardsticks.map((yardstick) => ({
    ...yardstick,
    index: module.importFunction('bench', yardstick.name, i32s(yardstick.arity), [yardstick.result]),
  }));

  const loop = (name: string, arity: number, calling: readonly number[]) => {
    const last = arity + FIXED_PARAMS;
    const args = Array.from({ length: arity }, (_, at) => localGet(at + FIXED_PARAMS)).flat();
    const setLength = [...localGet(1), ...localGet(2), ...I32_STORE];
    const body = [
      ...LOOP,
      ...setLength,
      ...args,
      ...calling,
      ...localSet(last),
      ...countDown(0),
      ...branchIf(0),
      ...END,
      ...localGet(last),
    ];
    module.export(name, 'function', module.function(i32s(arity + FIXED_PARAMS + 1), ['i32'], body));
  };
  for (const { row, index } of hostcalls.values()) {
    loop(row.name, coreParams(row).length, [...call(index), ...asI32[row.result]]);
  }
  for (const { name, arity, result, index } of bare) loop(name, arity, [...call(index), ...asI32[result]]);
  module.export(WALK, 'function', module.function(i32s(8), ['i32'], walk(hostcalls.get('spear_fd_ctl')?.index ?? 0)));
  for (const [name, [open, close]] of Object.entries(pairs)) {
    const index = (of: string) => hostcalls.get(of)?.index ?? 0;
    loop(name, 0, [...call(index(open)), ...call(index(close))]);
  }
  return module.encode();
}

/** GET_KIND of one descriptor after the other: `walk(n, slot, length, first, count, out, 0, 0)`. */
export const WALK = 'walk';
const GET_KIND = 3;

function walk(fdCtl: number): number[] {
  const [slot, length, first, count, out, at, last] = [1, 2, 3, 4, 5, 6, 7] as const;
  const fd = [...localGet(first), ...localGet(at), ...I32_ADD];
  const next = [...localGet(at), ...i32Const(1), ...I32_ADD, ...localTee(at), ...localGet(count), ...I32_EQ];
  return [
    ...LOOP,
    ...[...localGet(slot), ...localGet(length), ...I32_STORE],
    ...[...fd, ...i32Const(GET_KIND), ...localGet(out), ...localGet(slot), ...call(fdCtl), ...localSet(last)],
    ...[...next, ...IF, ...i32Const(0), ...localSet(at), ...END],
    ...[...countDown(0), ...branchIf(0), ...END, ...localGet(last)],
  ];
}
