import type { Client, ProtocolEra } from '@modelcontextprotocol/client';
import type { JsonObject } from '../../../base/json.ts';
import type { CallKind } from '../../../runtime/port/policy-layers.ts';
import type { Redact } from '../../../server/secrets/redactor.ts';
import { anyObject, type CallSender, type LibraryCalls, NO_LIBRARY_TIMEOUT_MS } from './call-sender.ts';
import type { ServerQuestions } from './elicitation/server-questions.ts';
import { McpCancelledError, McpConnectionError, McpError, McpOutputError } from './errors.ts';
import { fromLibrary } from './library-errors.ts';
import type { McpLibrary } from './transport/transport.ts';

export interface RequestSubject {
  readonly what: string;
  readonly toolName: string;
}

/** One open connection to a server, from its handshake to its end. */
export class ServerSession {
  readonly serverId: string;
  readonly redact: Redact;
  readonly redactContent: Redact;
  /** The way that calls of tools go. */
  readonly calls: CallSender;
  /** The way of resources and prompts. */
  readonly requests: LibraryCalls;
  readonly era: ProtocolEra;
  /** What the server asks of us. */
  readonly questions: ServerQuestions;
  /** Whether parameters of tools are sent as headers too. */
  readonly mirrorsHeaders: boolean;
  readonly #client: Client;
  readonly #library: McpLibrary;
  #usable = true;
  #loss: string | null = null;
  #retired = false;
  #leases = 0;
  #closing: Promise<void> | null = null;
  readonly #closed = Promise.withResolvers<void>();
  /** Called when the last lease was given back. */
  onIdle: () => void = () => {};
  /** Called when a request failed in a way that says something about the connection. */
  onTrouble: () => void = () => {};

  constructor(deps: {
    serverId: string;
    client: Client;
    library: McpLibrary;
    redact: Redact;
    redactContent: Redact;
    calls: CallSender;
    requests: LibraryCalls;
    questions: ServerQuestions;
    mirrorsHeaders: boolean;
    era: ProtocolEra;
  }) {
    this.era = deps.era;
    this.mirrorsHeaders = deps.mirrorsHeaders;
    this.calls = deps.calls;
    this.requests = deps.requests;
    this.questions = deps.questions;
    this.serverId = deps.serverId;
    this.redact = deps.redact;
    this.redactContent = deps.redactContent;
    this.#client = deps.client;
    this.#library = deps.library;
  }

  /** Whether new requests may be sent over it. */
  get usable(): boolean {
    return this.#usable;
  }

  get leases(): number {
    return this.#leases;
  }

  /** Whether the server declares to have any. */
  offers(kind: CallKind): boolean {
    return this.#client.getServerCapabilities()?.[`${kind}s`] !== undefined;
  }

  /** What the server says about how to use it; null: nothing. */
  get instructions(): string | null {
    const text = this.#client.getInstructions();
    return text === undefined || text === '' ? null : this.redactContent(text);
  }

  /** The version of MCP that both sides agreed on; null where the server named none. */
  get protocolVersion(): string | null {
    return this.#client.getNegotiatedProtocolVersion() ?? null;
  }

  /** Until it is released as often, the session is not closed for being idle or replaced. */
  hold(): void {
    this.#leases += 1;
  }

  release(): void {
    this.#leases -= 1;
    if (this.#leases > 0) return;
    if (this.#retired) void this.close();
    else this.onIdle();
  }

  /**
   * Sends one request, once. An abort reaches the server as `notifications/cancelled`, and the signal's reason is what
   * is thrown then: the library reports every abort as a timeout.
   */
  async request(method: string, params: JsonObject, signal: AbortSignal, subject: RequestSubject): Promise<JsonObject> {
    if (signal.aborted) throw abortReason(this.serverId, signal);
    try {
      // The library checks a result of the new era as a whole: one odd tool would cost all the others.
      if (this.era === 'modern') return await this.#requestBeside(method, params, signal);
      return await this.#client.request({ method, params }, anyObject, { signal, timeout: NO_LIBRARY_TIMEOUT_MS });
    } catch (error) {
      if (signal.aborted) throw abortReason(this.serverId, signal);
      throw this.failure(error, subject);
    }
  }

  async #requestBeside(method: string, params: JsonObject, signal: AbortSignal): Promise<JsonObject> {
    const { promise, resolve, reject } = Promise.withResolvers<JsonObject>();
    const id = this.calls.request(method, params, {
      onResult: resolve,
      onError: reject,
      wantsProgress: false,
      onProgress: () => {},
      // Only during a call of a tool is there somebody who knows what it is about.
      ask: async () => ({
        action: 'decline',
        why: `the request belongs to ${method}; user input is only supported during a call`,
      }),
    });
    const cancel = () => {
      const reason = abortReason(this.serverId, signal);
      this.calls.cancel(id, reason.message);
      reject(reason);
    };
    signal.addEventListener('abort', cancel, { once: true });
    try {
      return await promise;
    } finally {
      signal.removeEventListener('abort', cancel);
    }
  }

  /** The transport is gone; what is in flight is about to fail, for this reason. */
  markLost(why: string): void {
    this.#usable = false;
    this.#loss = why;
  }

  /** No new requests; those in flight finish, then it closes. Resolves when it has. */
  retire(): Promise<void> {
    this.#usable = false;
    this.#retired = true;
    if (this.#leases === 0) void this.close();
    return this.#closed.promise;
  }

  /** Ends what is in flight as well. Never rejects. */
  close(): Promise<void> {
    this.#usable = false;
    this.#closing ??= this.#client.close().then(this.#closed.resolve, this.#closed.resolve);
    return this.#closing;
  }

  /** What was thrown for a request or a call, as an error of ours. */
  failure(error: unknown, subject: RequestSubject): McpError {
    const { serverId, redact } = this;
    if (this.#loss !== null) {
      return new McpConnectionError(serverId, 'lost', `${subject.what}: server "${serverId}": ${redact(this.#loss)}`);
    }
    const known = fromLibrary(error, { serverId, redact, library: this.#library, ...subject });
    if (known instanceof McpConnectionError && known.session !== 'stands') this.onTrouble();
    if (known instanceof McpOutputError)
      return new McpOutputError(serverId, known.message, this.redactContent(known.head));
    return known;
  }
}

export function abortReason(serverId: string, signal: AbortSignal): McpError {
  const reason: unknown = signal.reason;
  return reason instanceof McpError ? reason : new McpCancelledError(serverId, 'the call was cancelled');
}
