export type Listener<T> = (value: T) => void;

/**
 * Who wants to know of something. A listener that throws is a bug to be seen, but not by whom it was told of: the
 * others are told all the same, and the error surfaces on its own, as an uncaught one.
 */
export class Listeners<T> {
  /** Made for the first who asks. */
  #listeners: Set<Listener<T>> | null = null;

  /** Returns the way to stop it. */
  add(listener: Listener<T>): () => void {
    const listeners = this.#listeners ?? new Set();
    this.#listeners = listeners.add(listener);
    return () => listeners.delete(listener);
  }

  /** Tells those who listen now, also when one of them comes or goes meanwhile. */
  tell(value: T): void {
    for (const listener of [...(this.#listeners ?? [])]) {
      try {
        listener(value);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
