const DEADLINE_MS = 15_000;

/** Lets the event loop turn until the condition holds. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`waited ${DEADLINE_MS} ms for ${what}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
