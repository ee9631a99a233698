import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import type { McpError } from '../errors.ts';
import type { Challenge } from '../oauth/challenge.ts';

/** Says in words why a connection broke. */
export type LossReport = (why: string) => void;

const INTERNAL_ERROR = -32603;

/**
 * Ends one request of the library as if the server had answered with an error. The error itself travels as `data`: an
 * answer from outside is parsed from JSON and can never hold an object of our classes.
 */
export function failRequest(transport: Transport, requestId: string | number, error: McpError): void {
  const message = {
    jsonrpc: '2.0',
    id: requestId,
    error: { code: INTERNAL_ERROR, message: error.message, data: error },
  };
  transport.onmessage?.(message as JSONRPCMessage);
}

/** A server answered a request of ours with an error. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor({ code, message, data }: { readonly code: number; readonly message: string; readonly data?: unknown }) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** An HTTP status that is no success, with what the server says about it. */
export interface HttpRefusal {
  readonly status: number;
  /** The body, or its beginning; null where nobody read it. */
  readonly text: string | null;
  /** Whether it was sent in a session that the server itself had named. */
  readonly inSession: boolean;
  /** The scope that a token would need, by `WWW-Authenticate: … error="insufficient_scope"`; null: it is not about one. */
  readonly missingScope: string | null;
}

/** An HTTP server answered with a status that is no success. */
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

/** Where an HTTP server is and what is sent to it, references resolved. Both hold secrets. */
export interface HttpTarget {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

/** The MCP client library is loaded when the first connection is made: it costs 145 ms. */
export type McpLibrary = typeof import('@modelcontextprotocol/client');

/** Far more than a server that waits for its answers has open. */
export const MAX_ANSWERS = 32;

/**
 * Over HTTP every answer to a question of the server is a request of its own, and a server can ask faster than they can
 * be sent. Beyond the bound a question gets no answer: whoever asks so much does not wait for any.
 */
export class AnswersOnTheWay {
  #count = 0;

  async send(answer: () => Promise<void>): Promise<void> {
    if (this.#count >= MAX_ANSWERS) return;
    this.#count += 1;
    try {
      await answer();
    } finally {
      this.#count -= 1;
    }
  }
}

/** Over HTTP a notification is a request of its own; closing at once would take it back. */
export class NotificationsOnTheWay {
  readonly #sending = new Set<Promise<void>>();

  async track(sending: Promise<void>): Promise<void> {
    this.#sending.add(sending);
    try {
      await sending;
    } finally {
      this.#sending.delete(sending);
    }
  }

  /** Waits until those of now have arrived or failed, and no longer than `timeoutMs`. */
  async arrived(timeoutMs: number): Promise<void> {
    if (this.#sending.size === 0) return;
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, timeoutMs);
    });
    await Promise.race([Promise.allSettled(this.#sending), timeout]);
    clearTimeout(timer);
  }
}
