import type { Dispatcher } from 'undici';
import type { JsonObject } from '../../../../base/json.ts';
import { type Asker, besideArguments, type CallSender, callText, DirectRequests, requestText } from '../call-sender.ts';
import { McpConnectionError, McpOutputError } from '../errors.ts';
import { type CallHeaders, encodedHeader, NO_HEADERS } from '../header-parameters.ts';
import { type TokenRefusal, tokenRefusal } from '../oauth/challenge.ts';
import type { ServerTokens } from '../oauth/server-tokens.ts';
import { ResumePace } from './event-stream.ts';
import { HttpResponse, type HttpResponseHandlers, SESSION_HEADER } from './http-response.ts';
import { beginningOfText, type OversizedLine } from './line-framer.ts';
import { type HttpTarget, StatusError } from './transport.ts';

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

/** What the calls of one connection share. */
export interface HttpCallSite {
  readonly dispatcher: Dispatcher;
  readonly url: URL;
  /** What `Authorization` is; null: what the headers say. */
  readonly tokens: ServerTokens | null;
  readonly maxMessageBytes: number;
  /** For a request with a body, or for one that goes on with a stream. */
  headers(lastEventId: string | null): Readonly<Record<string, string>>;
  /** Whether the call is still waited for. */
  isOpen(id: number): boolean;
  /** Whatever the server sent for this call, its answer among it. @throws Error where it is no message */
  message(id: number, text: string): void;
  tooLarge(id: number, line: OversizedLine): void;
  failed(id: number, error: Error): void;
  /** In words of ours. */
  lost(id: number, why: string): void;
  suspect(): void;
  /** Nothing is open for it any more. */
  over(call: HttpCall): void;
}

const METHOD_NOT_ALLOWED = 405;
/** In a row, to go on with a stream. */
const MAX_FAILED_RESUMES = 2;
const NO_ANSWER = 'the server closed the stream without a response';

/**
 * One call over Streamable HTTP: a POST, whose answer is JSON or a stream of events. A stream with event ids that the
 * server closes in order before the answer came is gone on with by a GET; one that breaks is not.
 */
export class HttpCall implements HttpResponseHandlers {
  readonly id: number;
  readonly maxMessageBytes: number;
  readonly #site: HttpCallSite;
  readonly #ownHeaders: CallHeaders;
  readonly #pace = new ResumePace();
  #response: HttpResponse | null = null;
  #timer: NodeJS.Timeout | null = null;
  #lastEventId: string | null = null;
  #retryMs: number | null = null;
  #isResumed = false;
  #failedResumes = 0;
  #body: string | null = null;
  #authorization: string | null = null;
  /** A token is got anew once for each reason. */
  readonly #mended = new Set<TokenRefusal['kind']>();

  constructor(id: number, site: HttpCallSite, ownHeaders: CallHeaders) {
    this.id = id;
    this.#ownHeaders = ownHeaders;
    this.#site = site;
    this.maxMessageBytes = site.maxMessageBytes;
  }

  send(body: string): void {
    this.#body = body;
    this.#request('POST');
  }

  /** Whatever it still reads or waits for ends. */
  drop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#response?.drop();
    this.#site.over(this);
  }

  opened(): void {
    this.#failedResumes = 0;
  }

  message(text: string): void {
    this.#pace.reset();
    try {
      this.#site.message(this.id, text);
    } catch {
      // It is none. Others may follow, and the call has its deadline.
    }
  }

  json(text: string): void {
    try {
      this.#site.message(this.id, text);
    } catch (error) {
      this.#site.failed(this.id, error as Error);
    }
  }

  eventId(id: string): void {
    this.#lastEventId = id;
  }

  retry(delayMs: number): void {
    this.#retryMs = delayMs;
  }

  oversized(line: OversizedLine): void {
    this.#site.tooLarge(this.id, line);
    this.drop();
  }

  ended(isStream: boolean): void {
    const canResume = isStream && (this.#isResumed || this.#lastEventId !== null);
    if (canResume && this.#site.isOpen(this.id)) this.#resumeLater();
    else this.#end(NO_ANSWER);
  }

  /** Its answer may come by another stream; the deadline of the call is not far. */
  accepted(): void {
    this.#site.over(this);
  }

  refused(error: Error): void {
    if (!this.#mend(error)) this.#giveUp(error);
  }

  broken(): void {
    this.#site.suspect();
    if (this.#isResumed && this.#site.isOpen(this.id)) this.#resumeLater();
    else this.#end('the connection was lost before the response arrived');
  }

  #resumeLater(): void {
    const delayMs = this.#pace.nextMs(this.#retryMs);
    if (delayMs === null) {
      this.#end(NO_ANSWER);
      return;
    }
    this.#isResumed = true;
    this.#timer = setTimeout(() => this.#request('GET'), delayMs);
  }

  #giveUp(error: Error): void {
    if (!this.#isResumed) {
      this.#site.failed(this.id, error);
      this.#site.over(this);
      return;
    }
    if (!(error instanceof StatusError)) this.#site.suspect();
    this.#failedResumes += 1;
    const isOver = error instanceof StatusError && error.status === METHOD_NOT_ALLOWED;
    if (isOver || this.#failedResumes > MAX_FAILED_RESUMES) this.#end(NO_ANSWER);
    else this.#resumeLater();
  }

  /** A request that was refused for its token never ran: it is sent again with another one, where there is one. */
  #mend(error: Error): boolean {
    const { tokens } = this.#site;
    const refusal = error instanceof StatusError ? tokenRefusal(error.status, error.challenge) : null;
    if (tokens === null || refusal === null || this.#mended.has(refusal.kind)) return false;
    this.#mended.add(refusal.kind);
    const method = this.#isResumed ? 'GET' : 'POST';
    tokens.renewed(this.#authorization, refusal).then(
      (isRenewed) => (isRenewed ? this.#request(method) : this.#giveUp(error)),
      (failure) => this.#giveUp(failure),
    );
    return true;
  }

  #request(method: 'GET' | 'POST'): void {
    const authorization = this.#site.tokens?.authorization() ?? null;
    if (!(authorization instanceof Promise)) this.#dispatch(method, authorization);
    else {
      authorization.then(
        (header) => this.#dispatch(method, header),
        (failure) => this.#giveUp(failure),
      );
    }
  }

  #dispatch(method: 'GET' | 'POST', authorization: string | null): void {
    // It may have been cancelled while its token was got.
    if (!this.#site.isOpen(this.id)) {
      this.#site.over(this);
      return;
    }
    const { dispatcher, url } = this.#site;
    const shared = this.#site.headers(method === 'GET' ? this.#lastEventId : null);
    const own = method === 'POST' ? this.#ownHeaders : NO_HEADERS;
    const isShared = own === NO_HEADERS && authorization === null;
    const headers = isShared ? shared : { ...shared, ...own, ...(authorization === null ? {} : { authorization }) };
    const body = method === 'POST' ? this.#body : null;
    this.#authorization = authorization;
    this.#response = new HttpResponse(dispatcher, { method, url, headers, body }, this);
    this.#response.send();
  }

  #end(why: string): void {
    this.#site.lost(this.id, why);
    this.#site.over(this);
  }
}
