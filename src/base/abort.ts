/**
 * Settles as `work` does, or as `instead` does as soon as the signal aborts, whatever `work` makes of it: the work
 * itself goes on. Without `instead` the signal's reason is thrown.
 */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal | null, instead?: () => T): Promise<T> {
  if (signal === null) return work;
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      try {
        if (instead === undefined) throw signal.reason;
        resolve(instead());
      } catch (error) {
        reject(error);
      }
    };
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/**
 * Aborts `controller` with the signal, until the returned function is called. By hand, because `AbortSignal.any` costs
 * more than a call's whole policy.
 */
export function abortWith(
  controller: AbortController,
  signal: AbortSignal | null | undefined,
  reason: () => unknown = () => signal?.reason,
): () => void {
  const onAbort = () => controller.abort(reason());
  if (signal?.aborted) onAbort();
  signal?.addEventListener('abort', onAbort, { once: true });
  return () => signal?.removeEventListener('abort', onAbort);
}
