import type { FetchLike, JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { McpOutputError } from '../errors.ts';
import { boundFetch } from './bounded-fetch.ts';
import { answeredRequest, beginningOfText } from './line-framer.ts';
import {
  AnswersOnTheWay,
  failRequest,
  type HttpTarget,
  type LossReport,
  type McpLibrary,
  NotificationsOnTheWay,
} from './transport.ts';

export interface SseDeps {
  readonly serverId: string;
  readonly target: HttpTarget;
  readonly library: McpLibrary;
  readonly fetch: FetchLike;
  readonly maxMessageBytes: number;
  /** Whether a message is a question, and answered there. */
  asked(message: JSONRPCMessage): boolean;
  /** Told once, before `onclose`, why the connection ended without our doing. */
  lost: LossReport;
}

const FLUSH_MS = 1_000;

/**
 * The library's transport for the old HTTP+SSE protocol. All answers come over one stream; when that breaks the
 * library opens a new one, to a session that knows nothing of the requests in flight. Here it ends the connection.
 */
export class SseTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport['onmessage']>;
  readonly #deps: SseDeps;
  readonly #inner: InstanceType<McpLibrary['SSEClientTransport']>;
  readonly #notifications = new NotificationsOnTheWay();
  readonly #answers = new AnswersOnTheWay();
  #fetchFailure: unknown = null;
  #started = false;
  #closed = false;

  constructor(deps: SseDeps) {
    this.#deps = deps;
    const remembering: FetchLike = async (url, init) => {
      try {
        return await deps.fetch(url, init);
      } catch (error) {
        this.#fetchFailure = error;
        throw error;
      }
    };
    const fetch = boundFetch(remembering, {
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
      // Its event source would go on trying in the background.
      await this.#inner.close().catch(() => {});
      // It also keeps only the words of what failed; the reason behind them is ours to tell.
      throw this.#fetchFailure ?? error;
    }
  }

  send(message: JSONRPCMessage): Promise<void> {
    if (!('method' in message)) return this.#answers.send(() => this.#inner.send(message));
    const sending = this.#inner.send(message);
    return 'id' in message ? sending : this.#notifications.track(sending);
  }

  setProtocolVersion(version: string): void {
    this.#inner.setProtocolVersion(version);
  }

  /** Never rejects. */
  async close(): Promise<void> {
    await this.#notifications.arrived(FLUSH_MS);
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
