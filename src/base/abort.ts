/** Waits for `work` no longer than until `signal`; the work itself goes on. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal | null, reason: () => unknown): Promise<T> {
  if (signal === null) return work;
  if (signal.aborted) {
    work.catch(() => {});
    return Promise.reject(reason());
  }
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(reason());
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
