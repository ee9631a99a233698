import { type Call, calls, coreParams } from '../src/abi/calls.ts';
import { call, drop, i32Const, leb, localGet, type ValueType, WasmModule } from '../test/support/wasm-encoder.ts';

const LOOP = [0x03, 0x40];
const BR_IF = [0x0d, 0x00];
const END = [0x0b];
const I32_SUB = [0x6b];
const I32_WRAP_I64 = [0xa7];
const localSet = (index: number) => [0x21, ...leb(index)];
const localTee = (index: number) => [0x22, ...leb(index)];

/** The import that a hostcall is measured against: it does nothing. */
export const BARE = 'bare';
export const BARE_SUSPENDING = 'bare suspending';

/** A pair that gives back what it took, so that it can go on for ever. */
export const pairs = {
  'cchat_create + cchat_close': ['cchat_create', 'cchat_close'],
  'spear_epoll_create + spear_epoll_close': ['spear_epoll_create', 'spear_epoll_close'],
} as const;

/**
 * A guest whose exports call one import over and over: `export(n, ...args, 0)` calls it `n` times with the same
 * arguments and gives the last result. The loop is inside the guest, as the calls of a real one are.
 */
export function loopModule(): Uint8Array {
  const module = new WasmModule();
  const i32s = (count: number): ValueType[] => Array.from({ length: count }, () => 'i32');
  const rows: readonly Call[] = calls;
  const hostcalls = new Map(
    rows.map((row) => {
      const results: ValueType[] = row.result === 'none' ? [] : [row.result];
      return [
        row.name,
        { row, index: module.importFunction('spear', row.name, i32s(coreParams(row).length), results) },
      ];
    }),
  );
  const bare = [BARE, BARE_SUSPENDING].map((name) => ({
    name,
    index: module.importFunction('bench', name, i32s(2), ['i32']),
  }));

  const loop = (name: string, arity: number, calling: readonly number[]) => {
    const last = arity + 1;
    const args = Array.from({ length: arity }, (_, at) => localGet(at + 1)).flat();
    const count = [...localGet(0), ...i32Const(1), ...I32_SUB, ...localTee(0)];
    const body = [...LOOP, ...args, ...calling, ...localSet(last), ...count, ...BR_IF, ...END, ...localGet(last)];
    module.export(name, 'function', module.function(i32s(arity + 2), ['i32'], body));
  };
  for (const { row, index } of hostcalls.values()) {
    const asI32 = { i32: [], i64: I32_WRAP_I64, none: i32Const(0) }[row.result];
    loop(row.name, coreParams(row).length, [...call(index), ...asI32]);
  }
  for (const { name, index } of bare) loop(name, 2, call(index));
  for (const [name, [open, close]] of Object.entries(pairs)) {
    const index = (of: string) => hostcalls.get(of)?.index ?? 0;
    loop(name, 0, [...call(index(open)), ...call(index(close))]);
  }
  module.export('memory', 'memory', module.memory({ min: 16 }));
  return module.encode();
}

/** A whole guest: one session, `sends` questions one after the other. */
export function sendingGuest(sends: number): Uint8Array {
  const module = new WasmModule();
  const create = module.importFunction('spear', 'cchat_create', [], ['i32']);
  const write = module.importFunction('spear', 'cchat_write_msg', ['i32', 'i32', 'i32', 'i32', 'i32'], ['i32']);
  const send = module.importFunction('spear', 'cchat_send', ['i32', 'i32'], ['i32']);
  const close = module.importFunction('spear', 'cchat_close', ['i32'], ['i32']);
  const [role, question] = ['user', 'How are you?'];
  module.data(0, role + question);
  const text = [...i32Const(0), ...i32Const(role.length), ...i32Const(role.length), ...i32Const(question.length)];
  const once = [
    ...localGet(1),
    ...text,
    ...call(write),
    ...drop,
    ...localGet(1),
    ...i32Const(0),
    ...call(send),
    ...call(close),
    ...drop,
  ];
  const count = [...localGet(0), ...i32Const(1), ...I32_SUB, ...localTee(0)];
  const ask = module.function(['i32', 'i32'], [], [...LOOP, ...once, ...count, ...BR_IF, ...END]);
  module.export('_start', 'function', module.function([], [], [...i32Const(sends), ...call(create), ...call(ask)]));
  module.export('memory', 'memory', module.memory({ min: 1 }));
  return module.encode();
}
