import type { Dispatcher } from 'undici';
import type { JsonObject } from '../../../../base/json.ts';
import type { Asker, CallSender } from '../call-sender.ts';
import { McpConnectionError, McpOutputError } from '../errors.ts';
import { type CallHeaders, encodedHeader } from '../header-parameters.ts';
import type { ServerTokens } from '../oauth/server-tokens.ts';
import { besideArguments, callText, DirectRequests, requestText } from './direct-requests.ts';
import { HttpCall, type HttpCallSite } from './http-call.ts';
import { SESSION_HEADER } from './http-response.ts';
import type { HttpTarget } from './http-target.ts';
import type { OversizedLine } from './line-framer.ts';
import { beginningOfText } from './oversized-answer.ts';

export interface HttpCallsDeps {
  readonly serverId: string;
  readonly target: HttpTarget;
  readonly dispatcher: Dispatcher;
  readonly tokens: ServerTokens | null;
  readonly maxMessageBytes: number;
  /** What the handshake agreed on. */
  session(): { readonly id: string | undefined; readonly protocolVersion: string | undefined };
  /** A message that answers no call of these and came with this one's answer. @throws where it is no message at all */
  other(text: string, call: Asker | null): void;
  /** Tells the server; resolves or rejects when that is done. */
  tellCancelled(id: number, reason: string): Promise<void>;
  suspect(): void;
}

/** A server that does not take the news that a call was cancelled notices it by its stream. */
const TOLD_MS = 1_000;

/** Calls of tools over Streamable HTTP, each with a request of its own beside the library. */
export class HttpCalls implements CallSender, HttpCallSite {
  readonly dispatcher: Dispatcher;
  readonly url: URL;
  readonly tokens: ServerTokens | null;
  readonly maxMessageBytes: number;
  readonly #deps: HttpCallsDeps;
  readonly #requests = new DirectRequests();
  readonly #open = new Map<number, HttpCall>();
  #headers: Readonly<Record<string, string>> | null = null;
  /** What each call says beside its arguments. */
  #about: { readonly _meta: JsonObject } | null = null;

  constructor(deps: HttpCallsDeps) {
    this.#deps = deps;
    this.dispatcher = deps.dispatcher;
    this.url = deps.target.url;
    this.tokens = deps.tokens;
    this.maxMessageBytes = deps.maxMessageBytes;
  }

  /** From now on there are no sessions: each call says this about itself, and its headers say what it is. */
  describeEachBy(meta: JsonObject): void {
    this.#about = { _meta: meta };
  }

  ask(
    tool: string,
    args: JsonObject,
    asker: Asker,
    headers: CallHeaders,
    more: JsonObject | null,
    origin?: string | undefined,
  ): number {
    const id = this.#requests.add(asker);
    try {
      const described = this.#about === null ? headers : { ...headers, ...describing(tool) };
      const text = callText(id, tool, args, besideArguments(id, asker, this.#about, more), origin);
      this.#send(id, text, described);
    } catch (error) {
      this.#forget(id);
      throw error;
    }
    return id;
  }

  askFor(method: string, params: JsonObject, asker: Asker): number {
    const headers: CallHeaders = this.#about === null ? {} : { 'mcp-method': method };
    const id = this.#requests.add(asker);
    try {
      this.#send(id, requestText(id, method, { ...params, ...this.#about }), headers);
    } catch (error) {
      this.#forget(id);
      throw error;
    }
    return id;
  }

  cancel(id: number, reason: string): void {
    if (this.#requests.take(id) === undefined) return;
    const call = this.#open.get(id);
    if (this.#about !== null) {
      // Without sessions the end of its stream is what tells the server.
      call?.drop();
      return;
    }
    const drop = () => {
      clearTimeout(timer);
      call?.drop();
    };
    const timer = setTimeout(drop, TOLD_MS).unref();
    this.#deps.tellCancelled(id, reason).then(drop, drop);
  }

  /** Whether a message of another stream was the answer to a call. */
  settle(message: unknown): boolean {
    return this.#requests.size > 0 && this.#requests.settle(message);
  }

  /** The call that is under way, if it is one alone. */
  get onlyCall(): Asker | null {
    return this.#requests.only;
  }

  close(): void {
    for (const call of [...this.#open.values()]) call.drop();
    this.#requests.failAll(new Error('Connection closed'));
  }

  headers(lastEventId: string | null): Readonly<Record<string, string>> {
    this.#headers ??= this.#makeHeaders();
    if (lastEventId === null) return this.#headers;
    const { 'content-type': _type, ...headers } = this.#headers;
    return { ...headers, 'last-event-id': lastEventId };
  }

  isOpen(id: number): boolean {
    return this.#requests.has(id);
  }

  message(id: number, text: string): void {
    const found: unknown = JSON.parse(text);
    for (const message of Array.isArray(found) ? found : [found]) {
      if (!this.#requests.settle(message)) this.#deps.other(JSON.stringify(message), this.#requests.get(id));
    }
  }

  tooLarge(id: number, { head }: OversizedLine): void {
    const message = `the response has more than ${this.maxMessageBytes} bytes`;
    this.failed(id, new McpOutputError(this.#deps.serverId, message, beginningOfText(head)));
  }

  failed(id: number, error: Error): void {
    this.#requests.fail(id, error);
  }

  lost(id: number, why: string): void {
    if (!this.isOpen(id)) return;
    const { serverId } = this.#deps;
    this.failed(id, new McpConnectionError(serverId, 'lost', `server "${serverId}": ${why}`));
  }

  suspect(): void {
    this.#deps.suspect();
  }

  over(call: HttpCall): void {
    this.#open.delete(call.id);
  }

  #send(id: number, text: string, headers: CallHeaders): void {
    const call = new HttpCall(id, this, headers);
    this.#open.set(id, call);
    call.send(text);
  }

  #forget(id: number): void {
    this.#requests.take(id);
    this.#open.delete(id);
  }

  /** Those of the record first: what the protocol needs is not theirs to change. */
  #makeHeaders(): Readonly<Record<string, string>> {
    const { id, protocolVersion } = this.#deps.session();
    const given = Object.entries(this.#deps.target.headers).map(([name, value]) => [name.toLowerCase(), value]);
    const headers: Record<string, string> = { 'user-agent': 'undici', ...Object.fromEntries(given) };
    const types = headers.accept === undefined ? [] : headers.accept.split(',').map((type) => type.trim());
    headers.accept = [...new Set([...types, 'application/json', 'text/event-stream'])].join(', ');
    headers['accept-encoding'] = 'identity';
    headers['content-type'] = 'application/json';
    if (id === undefined) delete headers[SESSION_HEADER];
    else headers[SESSION_HEADER] = id;
    if (protocolVersion !== undefined) headers['mcp-protocol-version'] = protocolVersion;
    return headers;
  }
}

function describing(tool: string): CallHeaders {
  return { 'mcp-method': 'tools/call', 'mcp-name': encodedHeader(tool) };
}
