import { call, i32Const, localGet, WasmModule } from '../../test/support/wasm-encoder.ts';
import { branchIf, countDown, DROP, END, i64Const, LOOP, localSet } from './instructions.ts';
import { SENTENCE } from './texts.ts';

const KERNEL = 'extism:host/env';
const TEXT = 1024;
const CHUNK_BYTES = 8;
const I64_LOAD = [0x29, 0x03, 0x00];
const I64_ADD = [0x7c];

/**
 * A plugin whose export `run` passes a text of 64 bytes to the host `times` times, as Extism's guest libraries do it: room
 * from the kernel, the text copied there in pieces of eight bytes, the call, the room given back.
 */
export function extismPlugin(times: number): Uint8Array {
  const module = new WasmModule();
  const alloc = module.importFunction(KERNEL, 'alloc', ['i64'], ['i64']);
  const store = module.importFunction(KERNEL, 'store_u64', ['i64', 'i64']);
  const free = module.importFunction(KERNEL, 'free', ['i64']);
  const take = module.importFunction('extism:host/user', 'take', ['i64'], ['i64']);
  const length = Buffer.byteLength(SENTENCE);
  const copy = Array.from({ length: length / CHUNK_BYTES }, (_, index) => [
    ...[...localGet(1), ...i64Const(index * CHUNK_BYTES), ...I64_ADD],
    ...[...i32Const(TEXT + index * CHUNK_BYTES), ...I64_LOAD],
    ...call(store),
  ]).flat();
  const once = [
    ...[...i64Const(length), ...call(alloc), ...localSet(1)],
    ...copy,
    ...[...localGet(1), ...call(take), ...DROP],
    ...[...localGet(1), ...call(free)],
  ];
  const loop = module.function(['i32', 'i64'], [], [...LOOP, ...once, ...countDown(0), ...branchIf(0), ...END]);
  const run = [...i32Const(times), ...i64Const(0), ...call(loop), ...i32Const(0)];
  module.export('run', 'function', module.function([], ['i32'], run));
  module.export('memory', 'memory', module.memory({ min: 1 }));
  module.data(TEXT, SENTENCE);
  return module.encode();
}
