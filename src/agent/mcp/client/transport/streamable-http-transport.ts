import type { FetchLike, JSONRPCMessage, Transport, TransportSendOptions } from '@modelcontextprotocol/client';
import type { Dispatcher } from 'undici';
import type { RequestObserver } from '../call-sender.ts';
import { McpConnectionError, type McpError, McpOutputError } from '../errors.ts';
import type { ServerTokens } from '../oauth/server-tokens.ts';
import { boundFetch, REQUEST_HEADER } from './bounded-fetch.ts';
import { ResumePace } from './event-stream.ts';
import { HttpCalls } from './http-calls.ts';
import { answeredRequest, beginningOfText } from './line-framer.ts';
import { failRequest, type HttpTarget, type McpLibrary, PendingNotifications, ResponseLimiter } from './transport.ts';

export interface StreamableHttpDeps {
  readonly serverId: string;
  readonly target: HttpTarget;
  readonly library: McpLibrary;
  readonly fetch: FetchLike;
  /** The dispatcher behind `fetch`. */
  readonly dispatcher: Dispatcher;
  /** OAuth tokens of the server, which `fetch` adds by itself; null: none. */
  readonly tokens: ServerTokens | null;
  readonly maxMessageBytes: number;
  /** Handles a server request for user input or roots during this call. False: the message is none. */
  asked(message: JSONRPCMessage, call: RequestObserver | null): boolean;
  /** The server may have been restarted: requests in flight continue, new ones should use a new connection. */
  suspect(): void;
}

interface OpenRequest {
  /** Id of the library's request: a number, or a text for `listen` and the protocol probe. */
  readonly libraryId: string | number;
  readonly stream: AbortController;
}

/** A notification stream that stays open this long resets the reconnect backoff. */
const LISTENED_MS = 10_000;
/** Time for ending the session; a session that is not ended only costs the server memory. */
const SESSION_END_MS = 1_000;

/**
 * The library's Streamable HTTP transport, with what the library lacks: a request fails as soon as its stream breaks,
 * cancelling a request also closes its stream, and received messages are bounded. The library resumes a stream that the
 * server ends in order; a stream that breaks is not resumed. Tool calls have HTTP requests of their own ({@link HttpCalls}).
 *
 * Invariant: each library request in flight is in `#open` until its response, failure or cancellation.
 * Not handled here: OAuth and egress rules (in `fetch` and the dispatcher), deadlines.
 */
export class StreamableHttpTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport['onmessage']>;
  /** Without sessions the library cancels a request by closing its stream. */
  readonly hasPerRequestStream = true;
  readonly #deps: StreamableHttpDeps;
  readonly #inner: InstanceType<McpLibrary['StreamableHTTPClientTransport']>;
  readonly #open = new Map<string, OpenRequest>();
  readonly #notifications = new PendingNotifications();
  readonly #responses = new ResponseLimiter();
  /** Sends tool calls with HTTP requests of their own. */
  readonly calls: HttpCalls;
  readonly #listening = new ResumePace();
  #listeningSinceMs = 0;

  constructor(deps: StreamableHttpDeps) {
    this.#deps = deps;
    const fetch = boundFetch(deps.fetch, {
      maxMessageBytes: deps.maxMessageBytes,
      tooLarge: (request, answer) => {
        const id = request ?? answeredRequest(answer)?.toString();
        const message = `the response has more than ${deps.maxMessageBytes} bytes`;
        if (id !== undefined) this.#fail(id, new McpOutputError(deps.serverId, message, beginningOfText(answer.head)));
      },
      broken: (request) => {
        deps.suspect();
        if (request !== null) this.#fail(request, this.#lost('the connection was lost before the response arrived'));
      },
    });
    this.#inner = new deps.library.StreamableHTTPClientTransport(deps.target.url, {
      fetch,
      requestInit: { headers: { ...deps.target.headers } },
      reconnectionScheduler: (reconnect, delayMs) => this.#listenAgain(reconnect, delayMs),
    });
    this.calls = new HttpCalls({
      serverId: deps.serverId,
      target: deps.target,
      dispatcher: deps.dispatcher,
      tokens: deps.tokens,
      maxMessageBytes: deps.maxMessageBytes,
      session: () => ({ id: this.#inner.sessionId, protocolVersion: this.#inner.protocolVersion }),
      other: (text, call) => {
        const message = deps.library.deserializeMessage(text);
        if (!deps.asked(message, call)) this.onmessage?.(message);
      },
      sendCancelled: (requestId, reason) =>
        this.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId, reason } }),
      suspect: () => deps.suspect(),
    });
  }

  get sessionId(): string | undefined {
    return this.#inner.sessionId;
  }

  async start(): Promise<void> {
    this.#inner.onmessage = (message) => {
      if (this.calls.settle(message)) return;
      if (this.#deps.asked(message, this.calls.onlyCall)) return;
      if ('id' in message && !('method' in message)) this.#open.delete(String(message.id));
      this.onmessage?.(message);
    };
    this.#inner.onerror = (error) => this.onerror?.(error);
    this.#inner.onclose = () => this.onclose?.();
    await this.#inner.start();
  }

  async send(message: JSONRPCMessage, options: TransportSendOptions = {}): Promise<void> {
    if (!('method' in message)) return this.#responses.send(() => this.#inner.send(message));
    if ('id' in message) return this.#request(message, message.id, options);
    await this.#notifications.track(this.#inner.send(message));
    const cancelled = cancelledRequest(message);
    if (cancelled !== null) this.#drop(cancelled);
  }

  setProtocolVersion(version: string): void {
    this.#inner.setProtocolVersion(version);
  }

  /** Never rejects. */
  async close(): Promise<void> {
    await this.#notifications.settled(SESSION_END_MS);
    const ended = this.#inner.terminateSession().catch(() => {});
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, SESSION_END_MS).unref())]);
    for (const id of [...this.#open.keys()]) this.#drop(id);
    this.calls.close();
    await this.#inner.close().catch(() => {});
  }

  async #request(message: JSONRPCMessage, libraryId: string | number, options: TransportSendOptions): Promise<void> {
    const id = String(libraryId);
    const stream = new AbortController();
    this.#open.set(id, { libraryId, stream });
    options.requestSignal?.addEventListener('abort', () => this.#drop(id), { once: true });
    try {
      await this.#inner.send(message, {
        headers: { ...options.headers, [REQUEST_HEADER]: id },
        requestSignal: stream.signal,
        onRequestStreamEnd: () => {
          if (this.#open.has(id)) this.#fail(id, this.#lost('the server closed the stream without a response'));
        },
      });
    } catch (error) {
      this.#open.delete(id);
      throw error;
    }
  }

  /** Paces reconnects of the notification stream: the library follows any delay that a server requests. */
  #listenAgain(reconnect: () => void, delayMs: number): () => void {
    const now = performance.now();
    if (now - this.#listeningSinceMs > LISTENED_MS) this.#listening.reset();
    const nextMs = this.#listening.nextMs(delayMs);
    if (nextMs === null) return () => {};
    this.#listeningSinceMs = now + nextMs;
    const timer = setTimeout(reconnect, nextMs).unref();
    return () => clearTimeout(timer);
  }

  #fail(id: string, error: McpError): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    this.#drop(id);
    failRequest(this, open.libraryId, error);
  }

  #drop(id: string): void {
    const open = this.#open.get(id);
    this.#open.delete(id);
    open?.stream.abort();
  }

  #lost(why: string): McpConnectionError {
    return new McpConnectionError(this.#deps.serverId, 'lost', `server "${this.#deps.serverId}": ${why}`);
  }
}

function cancelledRequest(message: JSONRPCMessage): string | null {
  if (!('method' in message) || message.method !== 'notifications/cancelled') return null;
  const id = message.params?.requestId;
  return typeof id === 'string' || typeof id === 'number' ? String(id) : null;
}
