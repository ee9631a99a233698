import { type Dispatcher, EnvHttpProxyAgent, Pool } from 'undici';
import type { CompiledProxy } from '../../../config/host/host-config.ts';

/*
 * HTTP transport of a backend: one POST over a keep-alive pool, without a stream between connection and reader, and without
 * AbortController. Redirects are not followed.
 */

/** Limits of trailing data after a finished answer; the connection stays open below them. */
const MAX_TRAILING_BYTES = 4096;
const MAX_TRAILING_MS = 1000;

/** Consumer of a response body. An exception of a method fails the exchange and closes the connection. */
export interface BodyReader<Body> {
  /** Returns the result when the body is complete, else undefined. Trailing data is discarded. */
  take(portion: Uint8Array): Body | undefined;
  end(): Body;
  /** Backpressure: null if there is room, else the connection is paused until the promise resolves. */
  room?(): Promise<void> | null;
  /** The connection closed before the end of the body. */
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
 * One POST with undici's `dispatch`: `request` would add a stream between the connection and the reader, which costs more
 * than the rest of a turn. Rejects with the connection error, the error of the reader, or immediately with the reason of
 * an abort.
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
    // Aborted while the request waited for a connection.
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

/**
 * One-shot abort with a reason. Lighter than an AbortController, whose events cost more than the rest of the deadline
 * handling of a request.
 */
export class Ending {
  #over: { readonly reason: unknown } | null = null;
  #controller: AbortController | null = null;
  /** Called on abort; at most one listener at a time. */
  onEnd: ((reason: unknown) => void) | null = null;

  end(reason: unknown): void {
    if (this.#over !== null) return;
    this.#over = { reason };
    this.onEnd?.(reason);
    this.#controller?.abort(reason);
  }

  throwIfOver(): void {
    if (this.#over !== null) throw this.#over.reason;
  }

  /** For APIs that need an AbortSignal; created on first use. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#over !== null) this.#controller.abort(this.#over.reason);
    return this.#controller.signal;
  }
}

/** Maximum connections per backend; further requests wait within their deadlines. */
export const MAX_CONNECTIONS = 128;
/** Long enough for tool calls between two model requests. */
const KEEP_ALIVE_MS = 30_000;

/** Keep-alive connection pool of one backend, direct or through the proxy for its URL. */
export function openDispatcher(url: URL, proxy: CompiledProxy, connectTimeoutMs: number): Dispatcher {
  const pool = {
    // With HTTP/2 all requests would share one connection, and one reset would fail all of them.
    allowH2: false,
    bodyTimeout: 0,
    connections: MAX_CONNECTIONS,
    connectTimeout: connectTimeoutMs,
    // The request has its own deadline, which may exceed undici's default of five minutes.
    headersTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_MS,
  };
  const address = (url.protocol === 'https:' ? proxy.https : proxy.http)?.reveal();
  if (address === undefined) return new Pool(url.origin, pool);
  return new EnvHttpProxyAgent({
    ...pool,
    // All three are set, because undici reads missing ones from the environment.
    httpProxy: address,
    httpsProxy: address,
    noProxy: proxy.noProxy,
    // The proxy agents build some of their pools without these options.
    factory: (origin: string | URL, options: object) => new Pool(origin, { ...pool, ...options }),
  });
}
