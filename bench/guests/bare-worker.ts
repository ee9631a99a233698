// The yardstick of an async hostcall: a guest in a worker, a Suspending import that posts a message, and its answer.
import { parentPort } from 'node:worker_threads';
import { call, i32Const, localGet, WasmModule } from '../../test/support/wasm-encoder.ts';
import { branchIf, countDown, DROP, END, LOOP } from './instructions.ts';

const port = parentPort;
if (!port) throw new Error('bare-worker.ts is a worker');
let answered: (value: number) => void = () => {};
let times: number[] = [];
let before = 0n;

const module = new WasmModule();
const hop = module.importFunction('bench', 'hop', ['i32'], ['i32']);
const stamp = module.importFunction('bench', 'stamp', [], []);
const step = [...i32Const(7), ...call(hop), ...DROP, ...call(stamp)];
const body = [...LOOP, ...step, ...countDown(0), ...branchIf(0), ...END, ...localGet(0)];
module.export('steps', 'function', module.function(['i32'], ['i32'], body));
const { exports } = new WebAssembly.Instance(new WebAssembly.Module(module.encode()), {
  bench: {
    hop: new WebAssembly.Suspending((value: number) => {
      port.postMessage([1, value]);
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
const steps = WebAssembly.promising(exports.steps as WebAssembly.GuestFunction);

port.on('message', async ([, what, count]: [number, string, number]) => {
  if (what === 'done') {
    answered(0);
    return;
  }
  times = [];
  before = process.hrtime.bigint();
  await steps(count);
  port.postMessage(['times', times]);
});
