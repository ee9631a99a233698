import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { GuestProcess } from '../guests/guest-process.ts';
import { DROP } from '../guests/instructions.ts';
import { steppingGuest } from '../guests/stepping-guest.ts';
import { goal, rowWithRatios } from '../measure/row.ts';
import { inMicroseconds, type Stepper, stepInTurns } from '../measure/stepped.ts';
import type { Topic } from './topic.ts';

/** A call that does nothing but go to the host thread and back: without MCP the host refuses it at once. */
const guest = () => steppingGuest({ step: (steps) => [...steps.call('mcp_open', ...steps.text('none')), ...DROP] });

export const topic: Topic = async (effort) => {
  const ours = new GuestProcess({ wasm: guest() });
  const bare = openBareWorker();
  try {
    const rounds = { rounds: effort.of(21, 101), steps: 200, warmUp: effort.of(1_000, 3_000) };
    const samples = inMicroseconds(await stepInTurns((count) => ours.steps(count), bare.steps, rounds));
    const text = {
      topic: 'async',
      name: 'no-op to the host thread and back',
      unit: 'µs',
      yardstickName: 'bare JSPI import + postMessage round trip',
      goal: goal.ratioAtMost(1.2),
      cause: 'the message names its guest, its call and its parent, and is checked like network input',
    } as const;
    return [rowWithRatios(text, samples)];
  } finally {
    await ours.close();
    await bare.close();
  }
};

/** A worker whose guest calls a bare Suspending import that posts a message; this thread posts it back. */
function openBareWorker(): { steps: Stepper; close(): Promise<unknown> } {
  const worker = new Worker(fileURLToPath(new URL('../guests/bare-worker.ts', import.meta.url)), { env: {} });
  const waiting: ((times: number[]) => void)[] = [];
  worker.on('message', (message: unknown[]) => {
    if (message[0] === 'times') waiting.shift()?.(message[1] as number[]);
    else worker.postMessage([message[0], 'done']);
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
