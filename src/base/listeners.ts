export type Listener<T> = (value: T) => void;

/**
 * Set of listeners for one kind of event. An error of a listener is rethrown as an uncaught exception: neither the
 * emitter nor the other listeners see it.
 */
export class Listeners<T> {
  /** Created with the first listener. */
  #listeners: Set<Listener<T>> | null = null;

  /** Returns a function that removes the listener. */
  add(listener: Listener<T>): () => void {
    const listeners = this.#listeners ?? new Set();
    this.#listeners = listeners.add(listener);
    return () => listeners.delete(listener);
  }

  /** Notifies the current listeners, even if listeners are added or removed meanwhile. */
  notify(value: T): void {
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

/** A pending wait. `what` completes "waiting for …" and may contain untrusted text. */
export interface Wait {
  readonly what: string;
  /** Upper bound of the wait from now; null: unknown. */
  readonly atMostMs: number | null;
}

/** Notified when a wait begins; the returned function is called when the wait ends. */
export type Waiting = (wait: Wait) => () => void;

export const ignoreWaits: Waiting = () => () => {};

export async function whileWaiting<T>(waiting: Waiting, wait: Wait, work: Promise<T>): Promise<T> {
  const over = waiting(wait);
  try {
    return await work;
  } finally {
    over();
  }
}
