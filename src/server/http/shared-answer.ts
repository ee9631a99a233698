/** Also what has not changed says how old it is. */
const MAX_AGE_MS = 2_000;

/**
 * One answer for all who ask for it while its key stays the same, and for a moment: pages of many people ask at the same
 * time, whenever something changed, and with thousands of nodes an answer takes a while to make.
 */
export function sharedAnswer<T>(keyOf: () => Promise<string>, make: () => Promise<T>): () => Promise<T> {
  let last: { readonly key: string; readonly answer: Promise<T>; readonly atMs: number } | null = null;
  return async () => {
    const key = await keyOf();
    const now = performance.now();
    if (last === null || last.key !== key || now - last.atMs >= MAX_AGE_MS) last = { key, answer: make(), atMs: now };
    return last.answer;
  };
}
