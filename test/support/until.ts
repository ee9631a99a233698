// Not the global ones, which a test may replace, and which unit tests may not wait for.
import { setImmediate, setTimeout } from 'node:timers';

const DEADLINE_MS = 45_000;
/** What other processes do takes longer than these turns: from then on the wait leaves them the processor. */
const TURNS = 20;
const PAUSE_MS = 2;

/** Lets the event loop turn until the condition holds. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  for (let turn = 0; !condition(); turn++) {
    if (performance.now() > deadline) throw new Error(`waited ${DEADLINE_MS} ms for ${what}`);
    await new Promise<void>((resolve) => {
      if (turn < TURNS) setImmediate(resolve);
      else setTimeout(resolve, PAUSE_MS);
    });
  }
}
