import { openBareWorker } from '../guests/bare-worker-host.ts';
import { GuestProcess } from '../guests/guest-process.ts';
import { DROP } from '../guests/instructions.ts';
import { steppingGuest } from '../guests/stepping-guest.ts';
import { goal, rowWithRatios } from '../measure/row.ts';
import { inMicroseconds, stepInTurns } from '../measure/stepped.ts';
import type { Topic } from './topic.ts';

/** A call that does nothing but go to the host thread and back: without MCP the host refuses it at once. */
const guest = () => steppingGuest({ step: (steps) => [...steps.call('mcp_open', ...steps.text('none')), ...DROP] });

export const topic: Topic = async (effort) => {
  const ours = new GuestProcess({ wasm: guest() });
  const bare = openBareWorker(() => {});
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
