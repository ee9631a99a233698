import { StoreError } from './store.ts';

/**
 * Publishes every event to every watcher without waiting for any. A watcher whose queue is full is disconnected: listing
 * again costs less than buffering everything it missed.
 */
export class WatchHub<Event> {
  readonly #queueLimit: number;
  readonly #watchers = new Set<Watcher<Event>>();

  constructor(queueLimit: number) {
    this.#queueLimit = queueLimit;
  }

  /** Subscribes immediately, not at the first read, so that no event published after this call is missed. */
  subscribe(first: Event | null, signal: AbortSignal): AsyncIterable<Event> {
    const watcher = new Watcher<Event>(this.#queueLimit, signal, () => this.#watchers.delete(watcher));
    this.#watchers.add(watcher);
    if (first !== null) watcher.push(first);
    if (signal.aborted) watcher.end(null);
    return { [Symbol.asyncIterator]: () => watcher };
  }

  publish(event: Event): void {
    for (const watcher of this.#watchers) watcher.push(event);
  }

  close(): void {
    for (const watcher of this.#watchers) watcher.end(new StoreError('closed', 'the store was closed'));
  }
}

/** A watch that cannot start: its iteration fails with the reason. */
export function failedWatch(error: StoreError): AsyncIterable<never> {
  return { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(error) }) };
}

interface Reader<Event> {
  resolve(result: IteratorResult<Event>): void;
  reject(error: StoreError): void;
}

class Watcher<Event> implements AsyncIterator<Event> {
  readonly #limit: number;
  readonly #signal: AbortSignal;
  readonly #leave: () => void;
  readonly #onAbort = () => this.end(null);
  #queue: Event[] = [];
  #readers: Reader<Event>[] = [];
  #ended = false;
  #error: StoreError | null = null;

  constructor(limit: number, signal: AbortSignal, leave: () => void) {
    this.#limit = limit;
    this.#signal = signal;
    this.#leave = leave;
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  push(event: Event): void {
    const reader = this.#readers.shift();
    if (reader !== undefined) reader.resolve({ done: false, value: event });
    else if (this.#queue.length < this.#limit) this.#queue.push(event);
    else this.end(new StoreError('lagging', `this watcher lags: more than ${this.#limit} events are buffered for it`));
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

  next(): Promise<IteratorResult<Event>> {
    return new Promise((resolve, reject) => {
      const event = this.#queue.shift();
      if (event !== undefined) resolve({ done: false, value: event });
      else if (this.#ended) this.#settle({ resolve, reject });
      else this.#readers.push({ resolve, reject });
    });
  }

  return(): Promise<IteratorResult<Event>> {
    this.end(null);
    return Promise.resolve({ done: true, value: undefined });
  }

  #settle(reader: Reader<Event>): void {
    if (this.#error === null) reader.resolve({ done: true, value: undefined });
    else reader.reject(this.#error);
  }
}
