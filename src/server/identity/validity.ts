import type { Identity } from './identity.ts';

/** The longest time that a timer can be set for. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Tells whoever relies on an identity when it ends: when it is taken away, or its time is over. */
export class Validity {
  readonly #waiting = new Map<Identity, Set<() => void>>();

  whileValid(identity: Identity, ended: () => void): () => void {
    const callbacks = this.#waiting.get(identity) ?? new Set();
    this.#waiting.set(identity, callbacks);
    let timer: NodeJS.Timeout | undefined;
    const forget = () => {
      clearTimeout(timer);
      callbacks.delete(end);
      if (callbacks.size === 0 && this.#waiting.get(identity) === callbacks) this.#waiting.delete(identity);
    };
    const end = () => {
      forget();
      ended();
    };
    const { expiresAtMs } = identity;
    const wait = (atMs: number) => {
      const leftMs = atMs - Date.now();
      timer = setTimeout(() => (atMs <= Date.now() ? end() : wait(atMs)), Math.min(Math.max(leftMs, 0), MAX_TIMER_MS));
      timer.unref();
    };
    callbacks.add(end);
    if (expiresAtMs !== null) wait(expiresAtMs);
    return forget;
  }

  end(identity: Identity): void {
    for (const end of [...(this.#waiting.get(identity) ?? [])]) end();
  }
}
