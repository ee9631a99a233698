import type { Dispatcher } from 'undici';
import type { Ending } from './ending.ts';

/** What may follow a finished answer without costing the connection. */
const MAX_TRAILING_BYTES = 4096;
const MAX_TRAILING_MS = 1000;

/** Takes the body of an answer as it comes. What any of these throws fails the exchange, and ends the connection. */
export interface BodyReader<Body> {
  /** Anything but undefined is the whole of it; what may still come is let pass. */
  take(portion: Uint8Array): Body | undefined;
  end(): Body;
  /** Null: it takes more. Else nothing is read from the connection until this resolves. */
  room?(): Promise<void> | null;
  /** The connection broke before the end. */
  broken(error: unknown): Body;
}

export type Headers = Readonly<Record<string, string | string[] | undefined>>;

export interface Answer<Body> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

export type ReadBody<Body> = (status: number, headers: Headers) => BodyReader<Body>;

/**
 * One POST, straight from the connection to the reader: undici's own `request` puts a stream between them, which costs
 * more than the rest of a turn. Rejects with what kept an answer from beginning, with what the reader threw, or with the
 * reason of its end, and then at once, whatever the connection is doing.
 */
export function post<Body>(
  dispatcher: Dispatcher,
  request: Omit<Dispatcher.DispatchOptions, 'method'>,
  read: ReadBody<Body>,
  running: Ending,
): Promise<Answer<Body>> {
  return new Promise((resolve, reject) => {
    running.throwIfOver();
    dispatcher.dispatch({ ...request, method: 'POST' }, new Exchange(read, running, resolve, reject));
  });
}

class Exchange<Body> implements Dispatcher.DispatchHandler {
  readonly #read: ReadBody<Body>;
  readonly #running: Ending;
  readonly #resolve: (answer: Answer<Body>) => void;
  readonly #reject: (error: unknown) => void;
  #controller: Dispatcher.DispatchController | null = null;
  #head: Omit<Answer<Body>, 'body'> = { status: 0, headers: {} };
  #reader: BodyReader<Body> | null = null;
  #settled = false;
  #trailing = 0;
  #trailingTimer: NodeJS.Timeout | undefined;

  constructor(
    read: ReadBody<Body>,
    running: Ending,
    resolve: (answer: Answer<Body>) => void,
    reject: (error: unknown) => void,
  ) {
    this.#read = read;
    this.#running = running;
    this.#resolve = resolve;
    this.#reject = reject;
    running.onEnd = (reason) => this.#fail(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // It waited for a connection, and nobody waits for it any more.
    if (this.#settled) this.#disconnect();
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (status < 200) return;
    this.#head = { status, headers };
    this.#reader = this.#read(status, headers);
  }

  onResponseData(_controller: Dispatcher.DispatchController, portion: Uint8Array): void {
    if (this.#settled) {
      this.#trailing += portion.length;
      if (this.#trailing > MAX_TRAILING_BYTES) this.#disconnect();
      return;
    }
    this.#take((reader) => reader.take(portion));
    if (!this.#settled) this.#pause();
    if (!this.#settled || this.#trailingTimer !== undefined) return;
    this.#trailingTimer = setTimeout(() => this.#disconnect(), MAX_TRAILING_MS);
    this.#trailingTimer.unref();
  }

  onResponseEnd(): void {
    clearTimeout(this.#trailingTimer);
    this.#take((reader) => reader.end());
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    clearTimeout(this.#trailingTimer);
    if (this.#reader === null) this.#fail(error);
    else this.#take((reader) => reader.broken(error));
  }

  #pause(): void {
    const room = this.#reader?.room?.() ?? null;
    if (room === null || this.#controller === null || this.#controller.paused) return;
    this.#controller.pause();
    room.then(() => this.#controller?.resume());
  }

  #take(from: (reader: BodyReader<Body>) => Body | undefined): void {
    if (this.#settled || this.#reader === null) return;
    try {
      const body = from(this.#reader);
      if (body === undefined) return;
      this.#settle();
      this.#resolve({ ...this.#head, body });
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (this.#settled) return;
    this.#settle();
    this.#reject(error);
    this.#disconnect();
  }

  #settle(): void {
    this.#settled = true;
    this.#running.onEnd = null;
  }

  #disconnect(): void {
    clearTimeout(this.#trailingTimer);
    this.#controller?.abort(new Error('the response was discarded'));
  }
}
