import { setTimeout as pause } from 'node:timers/promises';

const DEADLINE_MS = 45_000;
const PAUSE_MS = 20;

/** Asks others, one question at a time, until the answer is yes. What fails is no yes. */
export async function eventually(ask: () => Promise<boolean>, what: string): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  while (!(await ask().catch(() => false))) {
    if (performance.now() > deadline) throw new Error(`waited ${DEADLINE_MS} ms for ${what}`);
    await pause(PAUSE_MS);
  }
}
