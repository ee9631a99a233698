/**
 * Settles like `work`, or like `instead` as soon as the signal aborts. Does not stop `work` itself. Without `instead`,
 * rejects with the signal's reason.
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
 * Aborts `controller` with the signal, until the returned function is called. Replaces `AbortSignal.any`, which costs
 * more than the policy evaluation of a tool call.
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
