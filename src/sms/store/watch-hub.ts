import type { RegistryEvent } from '../../protocol/record-events.ts';
import { StoreError } from './store.ts';

/**
 * Hands every event to every watcher without ever waiting for one. A watcher whose queue is full is cut off: it will
 * list again, which costs less than keeping everything it missed.
 */
export class WatchHub {
  readonly #queueLimit: number;
  readonly #watchers = new Set<Watcher>();

  constructor(queueLimit: number) {
    this.#queueLimit = queueLimit;
  }

  /** Subscribes at once, not at the first read, so that nothing published after this call is missed. */
  subscribe(first: RegistryEvent | null, signal: AbortSignal): AsyncIterable<RegistryEvent> {
    const watcher = new Watcher(this.#queueLimit, signal, () => this.#watchers.delete(watcher));
    this.#watchers.add(watcher);
    if (first !== null) watcher.push(first);
    if (signal.aborted) watcher.end(null);
    return { [Symbol.asyncIterator]: () => watcher };
  }

  publish(event: RegistryEvent): void {
    for (const watcher of this.#watchers) watcher.push(event);
  }

  close(): void {
    for (const watcher of this.#watchers) watcher.end(new StoreError('closed', 'the store was closed'));
  }
}

/** A watch that cannot start; the reason comes where the events would. */
export function failedWatch(error: StoreError): AsyncIterable<RegistryEvent> {
  return { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(error) }) };
}

interface Reader {
  resolve(result: IteratorResult<RegistryEvent>): void;
  reject(error: StoreError): void;
}

class Watcher implements AsyncIterator<RegistryEvent> {
  readonly #limit: number;
  readonly #signal: AbortSignal;
  readonly #leave: () => void;
  readonly #onAbort = () => this.end(null);
  #queue: RegistryEvent[] = [];
  #readers: Reader[] = [];
  #ended = false;
  #error: StoreError | null = null;

  constructor(limit: number, signal: AbortSignal, leave: () => void) {
    this.#limit = limit;
    this.#signal = signal;
    this.#leave = leave;
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  push(event: RegistryEvent): void {
    const reader = this.#readers.shift();
    if (reader !== undefined) reader.resolve({ done: false, value: event });
    else if (this.#queue.length < this.#limit) this.#queue.push(event);
    else this.end(new StoreError('lagging', `more than ${this.#limit} events are waiting for this watcher`));
  }

  end(error: StoreError | null): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#queue = [];
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#leave();
    const readers = this.#readers;
    this.#readers = [];
    for (const reader of readers) this.#settle(reader);
  }

  next(): Promise<IteratorResult<RegistryEvent>> {
    return new Promise((resolve, reject) => {
      const event = this.#queue.shift();
      if (event !== undefined) resolve({ done: false, value: event });
      else if (this.#ended) this.#settle({ resolve, reject });
      else this.#readers.push({ resolve, reject });
    });
  }

  return(): Promise<IteratorResult<RegistryEvent>> {
    this.end(null);
    return Promise.resolve({ done: true, value: undefined });
  }

  #settle(reader: Reader): void {
    if (this.#error === null) reader.resolve({ done: true, value: undefined });
    else reader.reject(this.#error);
  }
}
