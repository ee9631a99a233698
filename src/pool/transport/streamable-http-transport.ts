import type { FetchLike, JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { McpConnectionError, type McpError, McpOutputError } from '../errors.ts';
import { boundFetch, REQUEST_HEADER } from './bounded-fetch.ts';
import type { HttpTarget, McpLibrary } from './http-target.ts';
import { NotificationsOnTheWay } from './notifications-on-the-way.ts';
import { answeredRequest, beginningOfText } from './oversized-answer.ts';
import { failRequest } from './transport-failure.ts';

export interface StreamableHttpDeps {
  readonly serverId: string;
  readonly target: HttpTarget;
  readonly library: McpLibrary;
  readonly fetch: FetchLike;
  readonly maxMessageBytes: number;
  /** The server may have been restarted: requests in flight go on, but new ones should use a new connection. */
  suspect(): void;
}

/** A session that is not told goodbye only costs the server memory. */
const GOODBYE_MS = 1_000;

/**
 * The library's Streamable HTTP transport with what it leaves open: a request fails as soon as its stream breaks,
 * cancelling one also closes its stream, and what is received is bounded. A stream that the server closes in order is
 * resumed by the library, as the protocol has it; one that breaks is not.
 */
export class StreamableHttpTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport['onmessage']>;
  readonly #deps: StreamableHttpDeps;
  readonly #inner: InstanceType<McpLibrary['StreamableHTTPClientTransport']>;
  readonly #open = new Map<string, AbortController>();
  readonly #notifications = new NotificationsOnTheWay();

  constructor(deps: StreamableHttpDeps) {
    this.#deps = deps;
    const fetch = boundFetch(deps.fetch, {
      maxMessageBytes: deps.maxMessageBytes,
      tooLarge: (request, answer) => {
        const id = request ?? answeredRequest(answer)?.toString();
        const message = `the answer has more than ${deps.maxMessageBytes} bytes`;
        if (id !== undefined) this.#fail(id, new McpOutputError(deps.serverId, message, beginningOfText(answer.head)));
      },
      broken: (request) => {
        deps.suspect();
        if (request !== null) this.#fail(request, this.#lost('the connection broke before the answer was there'));
      },
    });
    this.#inner = new deps.library.StreamableHTTPClientTransport(deps.target.url, {
      fetch,
      requestInit: { headers: { ...deps.target.headers } },
    });
  }

  get sessionId(): string | undefined {
    return this.#inner.sessionId;
  }

  async start(): Promise<void> {
    this.#inner.onmessage = (message) => {
      if ('id' in message && !('method' in message)) this.#open.delete(String(message.id));
      this.onmessage?.(message);
    };
    this.#inner.onerror = (error) => this.onerror?.(error);
    this.#inner.onclose = () => this.onclose?.();
    await this.#inner.start();
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if ('method' in message && 'id' in message) return this.#request(message, String(message.id));
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
    await this.#inner.close().catch(() => {});
  }

  async #request(message: JSONRPCMessage, id: string): Promise<void> {
    const stream = new AbortController();
    this.#open.set(id, stream);
    try {
      await this.#inner.send(message, {
        headers: { [REQUEST_HEADER]: id },
        requestSignal: stream.signal,
        onRequestStreamEnd: () => this.#fail(id, this.#lost('the server closed the stream without an answer')),
      });
    } catch (error) {
      this.#open.delete(id);
      throw error;
    }
  }

  #fail(id: string, error: McpError): void {
    if (!this.#open.has(id)) return;
    this.#drop(id);
    failRequest(this, Number(id), error);
  }

  #drop(id: string): void {
    const stream = this.#open.get(id);
    this.#open.delete(id);
    stream?.abort();
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
