import { type Call, type CallName, calls, coreParams } from '../../src/runtime/abi/calls.ts';
import { call, i32Const, localGet, unreachable, type ValueType, WasmModule } from './wasm-encoder.ts';

/** Slots of the forwarder's function table that hold a callback of the test. */
export const CALLBACK_SLOTS = 16;

/** What else stands in the table. Slot 0 is empty, the callbacks follow. */
export const slot = {
  empty: 0,
  firstCallback: 1,
  trap: CALLBACK_SLOTS + 1,
  /** `() → ()` */
  noParameters: CALLBACK_SLOTS + 2,
  /** `(i32, i32, i32, i32) → ()` */
  noResult: CALLBACK_SLOTS + 3,
  /** `(i64, i64, i64, i64) → i32` */
  otherTypes: CALLBACK_SLOTS + 4,
  /** The import `spear_epoll_wait` itself: it has the parameters of a callback. */
  importedEpollWait: CALLBACK_SLOTS + 5,
  length: CALLBACK_SLOTS + 6,
} as const;

const CALLBACK: readonly ValueType[] = ['i32', 'i32', 'i32', 'i32'];
const forward = (index: number, count: number) => [
  ...Array.from({ length: count }, (_, parameter) => localGet(parameter)).flat(),
  ...call(index),
];

/**
 * A guest that does nothing by itself: each call of the table is imported from `spear` and exported again under its own
 * name, and the callbacks in its table lead back into the test.
 */
export function forwarderModule(pages: number): Uint8Array {
  const module = new WasmModule();
  const imported = new Map<CallName, number>();
  for (const row of calls as readonly Call[]) {
    const results: ValueType[] = row.result === 'none' ? [] : [row.result];
    imported.set(row.name as CallName, module.importFunction('spear', row.name, parameters(row), results));
  }
  const callback = module.importFunction('test', 'callback', ['i32', ...CALLBACK], ['i32']);
  const marked = module.importFunction('test', 'called_with_another_type', []);

  for (const row of calls as readonly Call[]) {
    const results: ValueType[] = row.result === 'none' ? [] : [row.result];
    const target = imported.get(row.name as CallName) as number;
    const params = parameters(row);
    module.export(row.name, 'function', module.function(params, results, forward(target, params.length)));
  }

  const callbacks = Array.from({ length: CALLBACK_SLOTS }, (_, index) =>
    module.function(CALLBACK, ['i32'], [...i32Const(index), ...forward(callback, CALLBACK.length)]),
  );
  module.table({ min: slot.length });
  module.element(slot.firstCallback, [
    ...callbacks,
    module.function(CALLBACK, ['i32'], unreachable),
    module.function([], [], call(marked)),
    module.function(CALLBACK, [], []),
    module.function(['i64', 'i64', 'i64', 'i64'], ['i32'], i32Const(0)),
    imported.get('spear_epoll_wait') as number,
  ]);
  module.export('__indirect_function_table', 'table', 0);
  module.memory({ min: pages });
  module.export('memory', 'memory', 0);
  return module.encode();
}

const parameters = (row: Call): ValueType[] => coreParams(row).map(() => 'i32');
