/** A name for a run in events and the trail. Not a secret, so `node:crypto` is not loaded for it. */
export function newRunId(): string {
  const part = () =>
    Math.floor(Math.random() * 2 ** 32)
      .toString(36)
      .padStart(7, '0');
  return `run-${Date.now().toString(36)}-${part()}${part()}`;
}
