import type { Dispatcher } from 'undici';
import type { JsonObject } from '../../../../base/json.ts';
import {
  type CallSender,
  callText,
  PendingRequests,
  type RequestObserver,
  requestText,
  type ToolRequest,
} from '../call-sender.ts';
import { McpConnectionError, McpOutputError } from '../errors.ts';
import { type CallHeaders, encodedHeader, NO_HEADERS } from '../header-parameters.ts';
import { type TokenRefusal, tokenRefusal } from '../oauth/challenge.ts';
import type { ServerTokens } from '../oauth/server-tokens.ts';
import { ResumePace } from './event-stream.ts';
import { HttpResponse, type HttpResponseHandlers, SESSION_HEADER } from './http-response.ts';
import { beginningOfText, type OversizedLine } from './line-framer.ts';
import { type HttpTarget, StatusError } from './transport.ts';

/*
 * Tool calls over Streamable HTTP, each with an HTTP request of its own beside the library.
 *
 * Invariants
 * - A POST is sent once per call, except where the server did not execute it: after a 401 or 403 for its token, and by a
 *   redirect that keeps the method.
 * - A stream that the server ends in order may be resumed by GET (with `last-event-id`); a POST whose connection broke
 *   fails the call, because the server may have executed it.
 * - `HttpCalls` owns the pending requests; a `HttpCall` owns one HTTP exchange and its timer, and removes itself.
 *
 * Not handled: deadlines (server-call.ts), connection pooling and egress rules (the dispatcher).
 */

export interface HttpCallsDeps {
  readonly serverId: string;
  readonly target: HttpTarget;
  readonly dispatcher: Dispatcher;
  /** Source of `Authorization`; null: the headers of the target are sent as they are. */
  readonly tokens: ServerTokens | null;
  readonly maxMessageBytes: number;
  /** Result of the handshake. */
  session(): { readonly id: string | undefined; readonly protocolVersion: string | undefined };
  /** A message that came with a call's response and answers none of these calls. @throws if the text is no message */
  other(text: string, call: RequestObserver | null): void;
  /** Notifies the server; settles when the notification was sent or failed. */
  sendCancelled(id: string, reason: string): Promise<void>;
  /** The server may have been restarted. */
  suspect(): void;
}

/** Time for the cancel notification. Then the stream is closed, which the server notices too. */
const CANCEL_NOTICE_MS = 1_000;

export class HttpCalls implements CallSender {
  readonly deps: HttpCallsDeps;
  readonly #requests = new PendingRequests();
  readonly #open = new Map<string, HttpCall>();
  #headers: Readonly<Record<string, string>> | null = null;
  #sessionMeta: JsonObject | null = null;

  constructor(deps: HttpCallsDeps) {
    this.deps = deps;
  }

  /** For servers without sessions: `_meta` of every request. Their requests also carry headers that name the method. */
  setSessionMeta(meta: JsonObject): void {
    this.#sessionMeta = meta;
  }

  call(request: ToolRequest, observer: RequestObserver): string {
    const headers =
      this.#sessionMeta === null
        ? request.headers
        : { ...request.headers, 'mcp-method': 'tools/call', 'mcp-name': encodedHeader(request.tool) };
    return this.#send(observer, headers, (id) => callText(id, request, this.#sessionMeta, observer.wantsProgress));
  }

  request(method: string, params: JsonObject, observer: RequestObserver): string {
    const headers: CallHeaders = this.#sessionMeta === null ? {} : { 'mcp-method': method };
    return this.#send(observer, headers, (id) => requestText(id, method, params, this.#sessionMeta));
  }

  cancel(id: string, reason: string): void {
    if (this.#requests.take(id) === undefined) return;
    const call = this.#open.get(id);
    if (this.#sessionMeta !== null) {
      // Without sessions the end of the stream cancels the call at the server.
      call?.drop();
      return;
    }
    const drop = () => {
      clearTimeout(timer);
      call?.drop();
    };
    const timer = setTimeout(drop, CANCEL_NOTICE_MS).unref();
    this.deps.sendCancelled(id, reason).then(drop, drop);
  }

  /** Whether a message of another stream was the response to a call. */
  settle(message: unknown): boolean {
    return this.#requests.size > 0 && this.#requests.settle(message);
  }

  /** The pending call if there is exactly one. */
  get onlyCall(): RequestObserver | null {
    return this.#requests.only;
  }

  close(): void {
    for (const call of [...this.#open.values()]) call.drop();
    this.#requests.failAll(new Error('Connection closed'));
  }

  /** For a POST, or for the GET that resumes a stream. */
  headers(lastEventId: string | null): Readonly<Record<string, string>> {
    this.#headers ??= this.#makeHeaders();
    if (lastEventId === null) return this.#headers;
    const { 'content-type': _type, ...headers } = this.#headers;
    return { ...headers, 'last-event-id': lastEventId };
  }

  isOpen(id: string): boolean {
    return this.#requests.has(id);
  }

  /** Whatever the server sent for this call, its response included. @throws Error if the text is no message */
  message(id: string, text: string): void {
    const found: unknown = JSON.parse(text);
    for (const message of Array.isArray(found) ? found : [found]) {
      if (!this.#requests.settle(message)) this.deps.other(JSON.stringify(message), this.#requests.get(id));
    }
  }

  tooLarge(id: string, { head }: OversizedLine): void {
    const message = `the response has more than ${this.deps.maxMessageBytes} bytes`;
    this.failed(id, new McpOutputError(this.deps.serverId, message, beginningOfText(head)));
  }

  failed(id: string, error: Error): void {
    this.#requests.fail(id, error);
  }

  lost(id: string, why: string): void {
    if (!this.isOpen(id)) return;
    const { serverId } = this.deps;
    this.failed(id, new McpConnectionError(serverId, 'lost', `server "${serverId}": ${why}`));
  }

  /** The call holds no request and no timer any more. */
  over(call: HttpCall): void {
    this.#open.delete(call.id);
  }

  #send(observer: RequestObserver, headers: CallHeaders, textOf: (id: string) => string): string {
    const id = this.#requests.add(observer);
    try {
      const text = textOf(id);
      const call = new HttpCall(id, this, headers);
      this.#open.set(id, call);
      call.send(text);
    } catch (error) {
      this.#requests.take(id);
      this.#open.delete(id);
      throw error;
    }
    return id;
  }

  /** Headers of the record come first: it cannot replace those that the protocol needs. */
  #makeHeaders(): Readonly<Record<string, string>> {
    const { id, protocolVersion } = this.deps.session();
    const given = Object.entries(this.deps.target.headers).map(([name, value]) => [name.toLowerCase(), value]);
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

const METHOD_NOT_ALLOWED = 405;
/** Failed attempts in a row to resume a stream. */
const MAX_FAILED_RESUMES = 2;
const NO_ANSWER = 'the server closed the stream without a response';

/** One call: a POST whose response is JSON or a stream of events, and the GETs that resume the stream. */
export class HttpCall implements HttpResponseHandlers {
  readonly id: string;
  readonly maxMessageBytes: number;
  readonly #calls: HttpCalls;
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
  /** A token is renewed once for each reason. */
  readonly #renewed = new Set<TokenRefusal['kind']>();

  constructor(id: string, calls: HttpCalls, ownHeaders: CallHeaders) {
    this.id = id;
    this.#ownHeaders = ownHeaders;
    this.#calls = calls;
    this.maxMessageBytes = calls.deps.maxMessageBytes;
  }

  send(body: string): void {
    this.#body = body;
    this.#request('POST');
  }

  /** Ends the exchange and its timer. */
  drop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#response?.drop();
    this.#calls.over(this);
  }

  opened(): void {
    this.#failedResumes = 0;
  }

  message(text: string): void {
    this.#pace.reset();
    try {
      this.#calls.message(this.id, text);
    } catch {
      // No message. More may follow, and the call has its deadline.
    }
  }

  json(text: string): void {
    try {
      this.#calls.message(this.id, text);
    } catch (error) {
      this.#calls.failed(this.id, error as Error);
    }
  }

  eventId(id: string): void {
    this.#lastEventId = id;
  }

  retry(delayMs: number): void {
    this.#retryMs = delayMs;
  }

  oversized(line: OversizedLine): void {
    this.#calls.tooLarge(this.id, line);
    this.drop();
  }

  ended(isStream: boolean): void {
    const canResume = isStream && (this.#isResumed || this.#lastEventId !== null);
    if (canResume && this.#calls.isOpen(this.id)) this.#resumeLater();
    else this.#end(NO_ANSWER);
  }

  /** The response may come by another stream; the deadline of the call ends the wait. */
  accepted(): void {
    this.#calls.over(this);
  }

  refused(error: Error): void {
    if (!this.#renewToken(error)) this.#giveUp(error);
  }

  broken(): void {
    this.#calls.deps.suspect();
    if (this.#isResumed && this.#calls.isOpen(this.id)) this.#resumeLater();
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
      this.#calls.failed(this.id, error);
      this.#calls.over(this);
      return;
    }
    if (!(error instanceof StatusError)) this.#calls.deps.suspect();
    this.#failedResumes += 1;
    const isOver = error instanceof StatusError && error.status === METHOD_NOT_ALLOWED;
    if (isOver || this.#failedResumes > MAX_FAILED_RESUMES) this.#end(NO_ANSWER);
    else this.#resumeLater();
  }

  /** A request that was rejected for its token was not executed: it is sent again with a renewed token, if there is one. */
  #renewToken(error: Error): boolean {
    const { tokens } = this.#calls.deps;
    const refusal = error instanceof StatusError ? tokenRefusal(error.status, error.challenge) : null;
    if (tokens === null || refusal === null || this.#renewed.has(refusal.kind)) return false;
    this.#renewed.add(refusal.kind);
    const method = this.#isResumed ? 'GET' : 'POST';
    tokens.renewed(this.#authorization, refusal).then(
      (isRenewed) => (isRenewed ? this.#request(method) : this.#giveUp(error)),
      (failure) => this.#giveUp(failure),
    );
    return true;
  }

  #request(method: 'GET' | 'POST'): void {
    const authorization = this.#calls.deps.tokens?.authorization() ?? null;
    if (!(authorization instanceof Promise)) this.#dispatch(method, authorization);
    else {
      authorization.then(
        (header) => this.#dispatch(method, header),
        (failure) => this.#giveUp(failure),
      );
    }
  }

  #dispatch(method: 'GET' | 'POST', authorization: string | null): void {
    // The call may have been cancelled while the token was fetched.
    if (!this.#calls.isOpen(this.id)) {
      this.#calls.over(this);
      return;
    }
    const { dispatcher, target } = this.#calls.deps;
    const shared = this.#calls.headers(method === 'GET' ? this.#lastEventId : null);
    const own = method === 'POST' ? this.#ownHeaders : NO_HEADERS;
    const isShared = own === NO_HEADERS && authorization === null;
    const headers = isShared ? shared : { ...shared, ...own, ...(authorization === null ? {} : { authorization }) };
    const body = method === 'POST' ? this.#body : null;
    this.#authorization = authorization;
    this.#response = new HttpResponse(dispatcher, { method, url: target.url, headers, body }, this);
    this.#response.send();
  }

  #end(why: string): void {
    this.#calls.lost(this.id, why);
    this.#calls.over(this);
  }
}
