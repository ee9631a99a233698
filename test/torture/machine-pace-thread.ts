// The thread of machine-pace.ts: an echo of cat(1) every few milliseconds, and how long each took.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort } from 'node:worker_threads';

const PAUSE_MS = 10;
const child = spawn('cat', { stdio: ['pipe', 'pipe', 'ignore'] });
const taken: number[] = [];
let isOver = false;

async function echo(): Promise<number> {
  const due = performance.now() + PAUSE_MS;
  await sleep(PAUSE_MS);
  child.stdin.write('x');
  await once(child.stdout, 'data');
  return performance.now() - due;
}

parentPort?.once('message', () => {
  isOver = true;
});
await echo();
parentPort?.postMessage('started');
while (!isOver) taken.push(await echo());
child.kill('SIGKILL');
taken.sort((a, b) => a - b);
parentPort?.postMessage({ p99Ms: taken[Math.floor(taken.length * 0.99)] ?? 0, worstMs: taken.at(-1) ?? 0 });
