import type { Client, StandardSchemaV1 } from '@modelcontextprotocol/client';
import { isJsonObject, type JsonObject } from '../base/json.ts';
import type { Redact } from '../secrets/redactor.ts';
import { McpCancelledError, McpConnectionError, McpError, McpOutputError } from './errors.ts';
import { fromLibrary } from './library-errors.ts';
import type { McpLibrary } from './transport/http-target.ts';

/** Our own deadlines decide; the library's timer must never come first. */
export const NO_LIBRARY_TIMEOUT_MS = 2 ** 31 - 1;

// The library would refuse a whole tools/list for one odd tool, so results are taken as they are and judged here.
const anyObject: StandardSchemaV1<unknown, JsonObject> = {
  '~standard': {
    version: 1,
    vendor: 'spear',
    validate: (value) => (isJsonObject(value) ? { value } : { issues: [{ message: 'not an object' }] }),
  },
};

export interface RequestSubject {
  readonly what: string;
  readonly toolName: string;
}

/** One open connection to a server, from its handshake to its end. */
export class ServerSession {
  readonly serverId: string;
  readonly redact: Redact;
  readonly redactContent: Redact;
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
  }) {
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

  get offersTools(): boolean {
    return this.#client.getServerCapabilities()?.tools !== undefined;
  }

  /** While it is held, the session is not closed for being idle or replaced. */
  lease(): () => void {
    this.#leases += 1;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#leases -= 1;
      if (this.#leases > 0) return;
      if (this.#retired) void this.close();
      else this.onIdle();
    };
  }

  /**
   * Sends one request, once. An abort reaches the server as `notifications/cancelled`, and the signal's reason is what
   * is thrown then: the library reports every abort as a timeout.
   */
  async request(method: string, params: JsonObject, signal: AbortSignal, subject: RequestSubject): Promise<JsonObject> {
    if (signal.aborted) throw abortReason(this.serverId, signal);
    try {
      return await this.#client.request({ method, params }, anyObject, { signal, timeout: NO_LIBRARY_TIMEOUT_MS });
    } catch (error) {
      if (signal.aborted) throw abortReason(this.serverId, signal);
      throw this.#failure(error, subject);
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

  #failure(error: unknown, subject: RequestSubject): McpError {
    const { serverId, redact } = this;
    if (this.#loss !== null) {
      return new McpConnectionError(serverId, 'lost', `${subject.what}: server "${serverId}": ${redact(this.#loss)}`);
    }
    const known = fromLibrary(error, { serverId, redact, library: this.#library, ...subject });
    if (known instanceof McpConnectionError) this.onTrouble();
    if (known instanceof McpOutputError)
      return new McpOutputError(serverId, known.message, this.redactContent(known.head));
    return known;
  }
}

export function abortReason(serverId: string, signal: AbortSignal): McpError {
  const reason: unknown = signal.reason;
  return reason instanceof McpError ? reason : new McpCancelledError(serverId, 'the call was cancelled');
}
