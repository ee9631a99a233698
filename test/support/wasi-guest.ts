import { GuestMemory } from '../../src/runtime/abi/memory.ts';
import { systemSources } from '../../src/runtime/durable/guest/sources.ts';
import { throwTrap } from '../../src/runtime/guest/trap.ts';
import { preview1 } from '../../src/runtime/guest/wasi/preview1.ts';
import type { StandardStream } from '../../src/runtime/port/guest-spec.ts';
import { GuestHeap } from './guest-heap.ts';
import { call, localGet, type ValueType, WasmModule } from './wasm-encoder.ts';

const signatures = {
  args_sizes_get: ['i32', 'i32'],
  args_get: ['i32', 'i32'],
  environ_sizes_get: ['i32', 'i32'],
  environ_get: ['i32', 'i32'],
  clock_time_get: ['i32', 'i64', 'i32'],
  clock_res_get: ['i32', 'i32'],
  random_get: ['i32', 'i32'],
  fd_write: ['i32', 'i32', 'i32', 'i32'],
  fd_read: ['i32', 'i32', 'i32', 'i32'],
  fd_fdstat_get: ['i32', 'i32'],
  fd_close: ['i32'],
  fd_seek: ['i32', 'i64', 'i32', 'i32'],
  fd_prestat_get: ['i32', 'i32'],
  proc_exit: ['i32'],
  sched_yield: [],
  poll_oneoff: ['i32', 'i32', 'i32', 'i32'],
} as const satisfies Record<string, readonly ValueType[]>;

export type WasiName = keyof typeof signatures;
export const wasiNames = Object.keys(signatures) as WasiName[];

export interface WasiGuestOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** What reading stdin gives, one chunk a time. */
  readonly stdin?: (maxBytes: number) => Promise<Uint8Array>;
  /** @default true */
  readonly takesOutput?: boolean;
}

/** A guest in this thread that passes its calls on to WASI. */
export class WasiGuest {
  readonly heap: GuestHeap;
  readonly output: [stream: StandardStream, text: string][] = [];
  exitCode: number | undefined;
  readonly #exports: WebAssembly.Instance['exports'];

  constructor({
    args = [],
    env = {},
    stdin = async () => new Uint8Array(),
    takesOutput = true,
  }: WasiGuestOptions = {}) {
    const memory = new GuestMemory();
    const wasi = preview1({
      memory,
      args,
      env,
      output: {
        write: (stream, bytes) => takesOutput && this.output.push([stream, Buffer.from(bytes).toString()]) > 0,
      },
      sources: systemSources,
      readStdin: stdin,
      exit: (code) => {
        this.exitCode = code;
        return throwTrap();
      },
    });
    const instance = new WebAssembly.Instance(new WebAssembly.Module(forwarder()), { wasi });
    this.#exports = instance.exports;
    this.heap = new GuestHeap(instance.exports.memory as WebAssembly.Memory);
    memory.attach(this.heap.memory);
  }

  async call(name: WasiName, ...args: (number | bigint)[]): Promise<number> {
    return (await WebAssembly.promising(this.#exports[name] as WebAssembly.GuestFunction)(...args)) as number;
  }

  /** A list of iovecs; its address and its length. */
  iovecs(...buffers: (readonly [ptr: number, length: number])[]): [ptr: number, count: number] {
    const ptr = this.heap.alloc(buffers.length * 8);
    for (const [index, [buffer, length]] of buffers.entries()) {
      this.heap.bytes.writeUInt32LE(buffer >>> 0, ptr + index * 8);
      this.heap.bytes.writeUInt32LE(length >>> 0, ptr + index * 8 + 4);
    }
    return [ptr, buffers.length];
  }
}

function forwarder(): Uint8Array {
  const module = new WasmModule();
  const results = (name: WasiName): ValueType[] => (name === 'proc_exit' ? [] : ['i32']);
  const imported = wasiNames.map((name) => module.importFunction('wasi', name, signatures[name], results(name)));
  for (const [index, name] of wasiNames.entries()) {
    const params = signatures[name];
    const body = [...params.flatMap((_, parameter) => localGet(parameter)), ...call(imported[index] as number)];
    module.export(name, 'function', module.function(params, results(name), body));
  }
  module.memory({ min: 2 });
  module.export('memory', 'memory', 0);
  return module.encode();
}
