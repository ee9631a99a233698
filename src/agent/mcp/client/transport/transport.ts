import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import type { McpError } from '../errors.ts';
import type { Challenge } from '../oauth/challenge.ts';

/** Receives the reason why a connection broke, as text. */
export type LossReport = (why: string) => void;

const INTERNAL_ERROR = -32603;

/**
 * Ends one request of the library with an error response of our own. The error object travels as `data`: a response of a
 * server is parsed from JSON, so its `data` can never be an instance of our classes.
 */
export function failRequest(transport: Transport, requestId: string | number, error: McpError): void {
  const message = {
    jsonrpc: '2.0',
    id: requestId,
    error: { code: INTERNAL_ERROR, message: error.message, data: error },
  };
  transport.onmessage?.(message as JSONRPCMessage);
}

/** JSON-RPC error response to an own request. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor({ code, message, data }: { readonly code: number; readonly message: string; readonly data?: unknown }) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** HTTP error status with the server's explanation. */
export interface HttpRefusal {
  readonly status: number;
  /** The body, or its beginning; null: it was not read. */
  readonly text: string | null;
  /** Whether the request carried a session id that the server had issued. */
  readonly inSession: boolean;
  /** Scope required by `WWW-Authenticate: … error="insufficient_scope"`; null: no such challenge. */
  readonly missingScope: string | null;
}

/** HTTP error status of an own request. */
export class StatusError extends Error implements HttpRefusal {
  readonly status: number;
  readonly text: string;
  readonly missingScope: string | null;
  readonly inSession: boolean;
  readonly challenge: Challenge;

  constructor({
    status,
    text,
    inSession,
    challenge,
  }: Pick<StatusError, 'status' | 'text' | 'inSession' | 'challenge'>) {
    super(`HTTP ${status}`);
    this.status = status;
    this.text = text;
    this.inSession = inSession;
    this.challenge = challenge;
    this.missingScope = challenge.isAboutScope ? (challenge.scope ?? 'not named') : null;
  }
}

/** Address and headers of an HTTP server, with references resolved. Both may contain secrets. */
export interface HttpTarget {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

/** The MCP client library, loaded on the first connection because loading takes 145 ms. */
export type McpLibrary = typeof import('@modelcontextprotocol/client');

/** Far more responses than a well-behaved server waits for. */
export const MAX_RESPONSES = 32;

/**
 * Bounds the responses to server requests. Over HTTP each response is a request of its own, and a server can send requests
 * faster than they are answered: beyond the bound a request gets no response.
 */
export class ResponseLimiter {
  #count = 0;

  async send(response: () => Promise<void>): Promise<void> {
    if (this.#count >= MAX_RESPONSES) return;
    this.#count += 1;
    try {
      await response();
    } finally {
      this.#count -= 1;
    }
  }
}

/** Notifications being sent. Over HTTP each is a request of its own, which closing the transport would abort. */
export class PendingNotifications {
  readonly #sending = new Set<Promise<void>>();

  async track(sending: Promise<void>): Promise<void> {
    this.#sending.add(sending);
    try {
      await sending;
    } finally {
      this.#sending.delete(sending);
    }
  }

  /** Waits until the current notifications are sent or failed, at most `timeoutMs`. */
  async settled(timeoutMs: number): Promise<void> {
    if (this.#sending.size === 0) return;
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, timeoutMs);
    });
    await Promise.race([Promise.allSettled(this.#sending), timeout]);
    clearTimeout(timer);
  }
}
