// Loaded with --import: every thread of the process begins its work late, as on a machine that is busy with other things.
import { syncBuiltinESMExports } from 'node:module';
import worker from 'node:worker_threads';

const LATE_MS = Number(process.env.LATE_MS);
const { Worker } = worker;

worker.Worker = class extends Worker {
  constructor(url, options) {
    const wait = `Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${LATE_MS});`;
    super(`${wait} import(${JSON.stringify(String(url))});`, { ...options, eval: true });
  }
};
syncBuiltinESMExports();
