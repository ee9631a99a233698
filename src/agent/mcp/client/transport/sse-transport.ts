import type { FetchLike, JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { McpOutputError } from '../errors.ts';
import { boundFetch } from './bounded-fetch.ts';
import { answeredRequest, beginningOfText } from './line-framer.ts';
import {
  failRequest,
  type HttpTarget,
  type LossReport,
  type McpLibrary,
  PendingNotifications,
  ResponseLimiter,
} from './transport.ts';

export interface SseDeps {
  readonly serverId: string;
  readonly target: HttpTarget;
  readonly library: McpLibrary;
  readonly fetch: FetchLike;
  readonly maxMessageBytes: number;
  /** Handles a server request for user input or roots. False: the message is none. */
  asked(message: JSONRPCMessage): boolean;
  /** Called once, before `onclose`, if the connection ended without `close`. */
  lost: LossReport;
}

const FLUSH_MS = 1_000;

/**
 * The library's transport for the old HTTP+SSE protocol. All responses come over one stream. When the stream breaks, the
 * library would open a new one, to a session without the requests in flight; this transport ends the connection instead.
 */
export class SseTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport['onmessage']>;
  readonly #deps: SseDeps;
  readonly #inner: InstanceType<McpLibrary['SSEClientTransport']>;
  readonly #notifications = new PendingNotifications();
  readonly #responses = new ResponseLimiter();
  #fetchFailure: unknown = null;
  #started = false;
  #closed = false;

  constructor(deps: SseDeps) {
    this.#deps = deps;
    const fetchAndRemember: FetchLike = async (url, init) => {
      try {
        return await deps.fetch(url, init);
      } catch (error) {
        this.#fetchFailure = error;
        throw error;
      }
    };
    const fetch = boundFetch(fetchAndRemember, {
      maxMessageBytes: deps.maxMessageBytes,
      tooLarge: (_request, answer) => {
        const id = answeredRequest(answer);
        const message = `the response has ${answer.bytes} bytes; the limit is ${deps.maxMessageBytes}`;
        if (id !== null)
          failRequest(this, id, new McpOutputError(deps.serverId, message, beginningOfText(answer.head)));
      },
      broken: () => this.#lose('the event stream was lost'),
    });
    this.#inner = new deps.library.SSEClientTransport(deps.target.url, {
      fetch,
      requestInit: { headers: { ...deps.target.headers } },
    });
  }

  async start(): Promise<void> {
    this.#inner.onmessage = (message) => {
      if (!this.#deps.asked(message)) this.onmessage?.(message);
    };
    this.#inner.onerror = (error) => {
      if (error instanceof this.#deps.library.SseError) this.#lose('the event stream ended');
      else this.onerror?.(error);
    };
    this.#inner.onclose = () => this.#finish();
    try {
      await this.#inner.start();
      this.#started = true;
    } catch (error) {
      // The library's event source would keep retrying in the background.
      await this.#inner.close().catch(() => {});
      // The library keeps only the message of the failure; the remembered error has the cause.
      throw this.#fetchFailure ?? error;
    }
  }

  send(message: JSONRPCMessage): Promise<void> {
    if (!('method' in message)) return this.#responses.send(() => this.#inner.send(message));
    const sending = this.#inner.send(message);
    return 'id' in message ? sending : this.#notifications.track(sending);
  }

  setProtocolVersion(version: string): void {
    this.#inner.setProtocolVersion(version);
  }

  /** Never rejects. */
  async close(): Promise<void> {
    await this.#notifications.settled(FLUSH_MS);
    await this.#inner.close().catch(() => {});
  }

  #lose(why: string): void {
    if (!this.#started || this.#closed) return;
    this.#deps.lost(why);
    this.#finish();
    void this.#inner.close().catch(() => {});
  }

  #finish(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.onclose?.();
  }
}
