import type { Client, ProtocolEra } from '@modelcontextprotocol/client';
import type { JsonObject } from '../../../base/json.ts';
import type { CallKind } from '../../../runtime/port/policy-layers.ts';
import type { Redact } from '../../../server/secrets/redactor.ts';
import { anyObject, type CallSender, type LibraryCalls, NO_LIBRARY_TIMEOUT_MS } from './call-sender.ts';
import type { ServerQuestions } from './elicitation/server-questions.ts';
import { McpCancelledError, McpConnectionError, McpError, McpOutputError } from './errors.ts';
import { fromLibrary } from './library-errors.ts';
import type { McpLibrary } from './transport/transport.ts';

/** Names a request in error messages. */
export interface RequestSubject {
  readonly what: string;
  readonly toolName: string;
}

/** One open connection to a server, from its handshake to its end. */
export class ServerSession {
  readonly serverId: string;
  readonly redact: Redact;
  readonly redactContent: Redact;
  /** Sends tool calls. */
  readonly calls: CallSender;
  /** Sends reads of resources and prompts. */
  readonly requests: LibraryCalls;
  readonly era: ProtocolEra;
  /** Handles requests of the server. */
  readonly questions: ServerQuestions;
  /** Whether tool parameters are mirrored in headers. */
  readonly mirrorsHeaders: boolean;
  readonly #client: Client;
  readonly #library: McpLibrary;
  #usable = true;
  #loss: string | null = null;
  #retired = false;
  #leases = 0;
  #closing: Promise<void> | null = null;
  readonly #closed = Promise.withResolvers<void>();
  /** Called when the last lease is released. */
  onIdle: () => void = () => {};
  /** Called when a request failure puts the connection in doubt. */
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

  /** Whether new requests may be sent. */
  get usable(): boolean {
    return this.#usable;
  }

  get leases(): number {
    return this.#leases;
  }

  /** Whether the server declares the capability. */
  offers(kind: CallKind): boolean {
    return this.#client.getServerCapabilities()?.[`${kind}s`] !== undefined;
  }

  /** The server's instructions, without secrets; null: none. */
  get instructions(): string | null {
    const text = this.#client.getInstructions();
    return text === undefined || text === '' ? null : this.redactContent(text);
  }

  /** The negotiated protocol version; null: the server named none. */
  get protocolVersion(): string | null {
    return this.#client.getNegotiatedProtocolVersion() ?? null;
  }

  /** Takes a lease: a leased session is not closed when it is idle or replaced. */
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
   * Sends one request, once. An abort reaches the server as `notifications/cancelled` and throws the signal's reason,
   * because the library reports every abort as a timeout.
   */
  async request(method: string, params: JsonObject, signal: AbortSignal, subject: RequestSubject): Promise<JsonObject> {
    if (signal.aborted) throw abortReason(this.serverId, signal);
    try {
      // The library validates a list of the new era as a whole: one invalid tool would reject all others.
      if (this.era === 'modern') return await this.#requestDirectly(method, params, signal);
      return await this.#client.request({ method, params }, anyObject, { signal, timeout: NO_LIBRARY_TIMEOUT_MS });
    } catch (error) {
      if (signal.aborted) throw abortReason(this.serverId, signal);
      throw this.failure(error, subject);
    }
  }

  async #requestDirectly(method: string, params: JsonObject, signal: AbortSignal): Promise<JsonObject> {
    const { promise, resolve, reject } = Promise.withResolvers<JsonObject>();
    const id = this.calls.request(method, params, {
      onResult: resolve,
      onError: reject,
      wantsProgress: false,
      onProgress: () => {},
      // User input is only supported during a call, whose guest it concerns.
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

  /** The transport is gone; requests in flight fail with this reason. */
  markLost(why: string): void {
    this.#usable = false;
    this.#loss = why;
  }

  /** Accepts no new requests and closes when the last lease is released. Resolves when closed. */
  retire(): Promise<void> {
    this.#usable = false;
    this.#retired = true;
    if (this.#leases === 0) void this.close();
    return this.#closed.promise;
  }

  /** Closes now; requests in flight fail. Never rejects. */
  close(): Promise<void> {
    this.#usable = false;
    this.#closing ??= this.#client.close().then(this.#closed.resolve, this.#closed.resolve);
    return this.#closing;
  }

  /** Converts what was thrown for a request or a call. */
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
