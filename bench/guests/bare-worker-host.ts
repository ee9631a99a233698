import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Stepper } from '../measure/stepped.ts';

const program = fileURLToPath(new URL('./bare-worker.ts', import.meta.url));

/**
 * A worker whose guest calls a bare Suspending import that posts a message; this thread does the work and posts an
 * answer. What a guest on a thread of its own cannot do without.
 */
export function openBareWorker(work: () => Promise<void> | void): { steps: Stepper; close(): Promise<unknown> } {
  const worker = new Worker(program, { env: {}, name: 'bare-guest' });
  const waiting: ((times: number[]) => void)[] = [];
  const answer = (id: unknown) => worker.postMessage([id, 'done']);
  worker.on('message', (message: unknown[]) => {
    if (message[0] === 'times') {
      waiting.shift()?.(message[1] as number[]);
      return;
    }
    const done = work();
    if (done === undefined) answer(message[0]);
    else void done.then(() => answer(message[0]));
  });
  worker.on('error', (error) => {
    throw error;
  });
  return {
    steps: (count) =>
      new Promise((resolve) => {
        waiting.push(resolve);
        worker.postMessage([0, 'go', count]);
      }),
    close: () => worker.terminate(),
  };
}
