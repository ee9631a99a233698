import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Stepper } from '../measure/stepped.ts';

const program = fileURLToPath(new URL('./bare-worker.ts', import.meta.url));

/** Gives the text that the guest reads, or its promise; nothing where it reads none. */
type Work = (asked: string) => unknown;

/**
 * A worker whose guest calls a bare Suspending import that posts a message; this thread does the work and posts an
 * answer. What a guest on a thread of its own cannot do without. With `texts` the guest asks by these in turn, each read
 * from its memory, and the answers are written there; without, nothing is carried.
 */
export function openBareWorker(
  work: Work,
  texts: readonly string[] = [],
): { steps: Stepper; close(): Promise<unknown> } {
  const worker = new Worker(program, { env: {}, name: 'bare-guest', workerData: texts });
  const waiting: ((times: number[]) => void)[] = [];
  const answer = (id: unknown, text: unknown) =>
    worker.postMessage(text === undefined ? [id, 'done'] : [id, 'done', text]);
  worker.on('message', (message: unknown[]) => {
    if (message[0] === 'times') {
      waiting.shift()?.(message[1] as number[]);
      return;
    }
    const done = work(message[1] as string);
    if (done instanceof Promise) void done.then((text) => answer(message[0], text));
    else answer(message[0], done);
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
