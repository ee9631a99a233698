import type { FetchLike, JSONRPCMessage, Transport, TransportSendOptions } from '@modelcontextprotocol/client';
import type { Dispatcher } from 'undici';
import type { RequestObserver } from '../call-sender.ts';
import { McpConnectionError, type McpError, McpOutputError } from '../errors.ts';
import type { ServerTokens } from '../oauth/server-tokens.ts';
import { boundFetch, REQUEST_HEADER } from './bounded-fetch.ts';
import { ResumePace } from './event-stream.ts';
import { HttpCalls } from './http-calls.ts';
import { answeredRequest, beginningOfText } from './line-framer.ts';
import { AnswersOnTheWay, failRequest, type HttpTarget, type McpLibrary, NotificationsOnTheWay } from './transport.ts';

export interface StreamableHttpDeps {
  readonly serverId: string;
  readonly target: HttpTarget;
  readonly library: McpLibrary;
  readonly fetch: FetchLike;
  /** What the fetch goes through. */
  readonly dispatcher: Dispatcher;
  /** Where it takes one: the fetch has it already. */
  readonly tokens: ServerTokens | null;
  readonly maxMessageBytes: number;
  /** Whether a message is a question, during this call, and answered there. */
  asked(message: JSONRPCMessage, call: RequestObserver | null): boolean;
  /** The server may have been restarted: requests in flight go on, but new ones should use a new connection. */
  suspect(): void;
}

interface OpenRequest {
  /** As the library wrote it: a number, or a text where it listens or asks for the era. */
  readonly ownId: string | number;
  readonly stream: AbortController;
}

/** A stream for notifications that was open for so long was worth opening. */
const LISTENED_MS = 10_000;
/** A session that is not told goodbye only costs the server memory. */
const GOODBYE_MS = 1_000;

/**
 * The library's Streamable HTTP transport with what it leaves open: a request fails as soon as its stream breaks,
 * cancelling one also closes its stream, and what is received is bounded. A stream that the server closes in order is
 * resumed by the library, as the protocol has it; one that breaks is not. Calls of tools have requests of their own
 * ({@link HttpCalls}) and the same promises.
 */
export class StreamableHttpTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport['onmessage']>;
  /** Where there are no sessions, the library cancels a request by its stream. */
  readonly hasPerRequestStream = true;
  readonly #deps: StreamableHttpDeps;
  readonly #inner: InstanceType<McpLibrary['StreamableHTTPClientTransport']>;
  readonly #open = new Map<string, OpenRequest>();
  readonly #notifications = new NotificationsOnTheWay();
  readonly #answers = new AnswersOnTheWay();
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
    if (!('method' in message)) return this.#answers.send(() => this.#inner.send(message));
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
    await this.#notifications.arrived(GOODBYE_MS);
    const goodbye = this.#inner.terminateSession().catch(() => {});
    await Promise.race([goodbye, new Promise((resolve) => setTimeout(resolve, GOODBYE_MS).unref())]);
    for (const id of [...this.#open.keys()]) this.#drop(id);
    this.calls.close();
    await this.#inner.close().catch(() => {});
  }

  async #request(message: JSONRPCMessage, ownId: string | number, options: TransportSendOptions): Promise<void> {
    const id = String(ownId);
    const stream = new AbortController();
    this.#open.set(id, { ownId, stream });
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

  /** The library would do so as often as a server asks for it. */
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
    failRequest(this, open.ownId, error);
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
