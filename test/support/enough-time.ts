const TRIES = 5;

/**
 * For a test of something that ends when its time is over, and has to get somewhere before: a busy machine needs more of
 * it, so every further try has twice the time. What is wrong fails in the last one.
 */
export async function inEnoughTime(firstMs: number, attempt: (ms: number) => Promise<void>): Promise<void> {
  for (let tried = 1; tried < TRIES; tried++) {
    const isDone = await attempt(firstMs * 2 ** (tried - 1)).then(
      () => true,
      () => false,
    );
    if (isDone) return;
  }
  await attempt(firstMs * 2 ** (TRIES - 1));
}
