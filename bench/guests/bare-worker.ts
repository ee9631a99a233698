// The yardstick of an async hostcall: a guest in a worker, a Suspending import that posts a message, and its answer.
import { parentPort, workerData } from 'node:worker_threads';
import { call, i32Const, localGet, WasmModule } from '../../test/support/wasm-encoder.ts';
import { branchIf, countDown, DROP, END, LOOP } from './instructions.ts';

const port = parentPort;
if (!port) throw new Error('bare-worker.ts is a worker');
let answered: (value: number) => void = () => {};
let times: number[] = [];
let before = 0n;

/** Where the texts that the guest asks by lie in its memory, and where the answers go. */
const texts = workerData as readonly string[];
const ANSWER = 32_768;

const module = new WasmModule();
const hop = module.importFunction('bench', 'hop', ['i32'], ['i32']);
const stamp = module.importFunction('bench', 'stamp', [], []);
const step = [...i32Const(7), ...call(hop), ...DROP, ...call(stamp)];
const body = [...LOOP, ...step, ...countDown(0), ...branchIf(0), ...END, ...localGet(0)];
module.export('steps', 'function', module.function(['i32'], ['i32'], body));
module.export('memory', 'memory', module.memory({ min: 1 }));
let end = 0;
const places = texts.map((text) => {
  const ptr = end;
  module.data(ptr, Buffer.from(text));
  end += Buffer.byteLength(text);
  return { ptr, end };
});
if (end > ANSWER) throw new Error('the texts of the guest do not fit');
let next = 0;
const { exports } = new WebAssembly.Instance(new WebAssembly.Module(module.encode()), {
  bench: {
    hop: new WebAssembly.Suspending((value: number) => {
      port.postMessage([1, places.length === 0 ? value : asked()]);
      return new Promise<number>((resolve) => {
        answered = resolve;
      });
    }),
    stamp: () => {
      const now = process.hrtime.bigint();
      times.push(Number(now - before));
      before = now;
    },
  },
});
const memory = Buffer.from((exports.memory as WebAssembly.Memory).buffer);
const steps = WebAssembly.promising(exports.steps as WebAssembly.GuestFunction);

function asked(): string {
  const place = places[next++ % places.length] as (typeof places)[number];
  return memory.toString('utf8', place.ptr, place.end);
}

port.on('message', async ([, what, said]: [number, string, unknown]) => {
  if (what === 'done') {
    answered(said === undefined ? 0 : memory.write(said as string, ANSWER));
    return;
  }
  times = [];
  before = process.hrtime.bigint();
  await steps(said as number);
  port.postMessage(['times', times]);
});
