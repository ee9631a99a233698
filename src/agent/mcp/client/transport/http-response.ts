import type { Dispatcher } from 'undici';
import { type Challenge, readChallenge } from '../oauth/challenge.ts';
import { type EventStreamHandlers, EventStreamReader } from './event-stream.ts';
import { HEAD_BYTES, TAIL_BYTES } from './line-framer.ts';
import { StatusError } from './transport.ts';

export interface HttpRequest {
  readonly method: 'GET' | 'POST';
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

/** Receives the events of one response; `oversized` is called for JSON as well. */
export interface HttpResponseHandlers extends EventStreamHandlers {
  /** The headers arrived; the body is a stream or JSON. */
  opened(): void;
  /** The complete JSON body. */
  json(text: string): void;
  /** The server ended the response in order; `isStream`: it was an event stream. */
  ended(isStream: boolean): void;
  /** 202: the server accepted the request without a response. */
  accepted(): void;
  /** An error status, an unreadable body, or no connection. */
  refused(error: Error): void;
  /** The connection broke under the answer. */
  broken(): void;
}

/** Names the session that a request belongs to. */
export const SESSION_HEADER = 'mcp-session-id';
/** Of an answer that says nothing, so much is read to keep the connection; beyond it the connection is closed. */
const IDLE_BYTES = 16 * 1024;
/** A server that sends events without end has no more than this read in one turn of the event loop. */
const TURN_BYTES = 16 * 1024;
const DROPPED = new Error('the response was discarded');

type Body =
  | { readonly kind: 'none' }
  /** Read to keep the connection, no further than some. */
  | { readonly kind: 'idle'; bytes: number }
  /** What the server says about its refusal, no further than some. */
  | {
      readonly kind: 'refusal';
      readonly status: number;
      readonly challenge: Challenge;
      readonly parts: Buffer[];
      bytes: number;
    }
  | { readonly kind: 'json'; readonly parts: Buffer[]; bytes: number }
  | { readonly kind: 'events'; readonly reader: EventStreamReader };

/**
 * One HTTP request of a call and its response, on undici's dispatcher instead of `fetch`.
 *
 * Invariants: after `drop()` no handler is called; at most one of `refused`, `ended`, `accepted` and `broken` is called;
 * redirects are followed only within the origin and with the same method.
 *
 * perf: bench/topics/mcp.ts "HTTP, one at a time"
 */
export class HttpResponse implements Dispatcher.DispatchHandler {
  readonly #dispatcher: Dispatcher;
  readonly #request: HttpRequest;
  readonly #handlers: HttpResponseHandlers;
  readonly #redirects: number;
  /** The request after a redirect; it calls the handlers instead. */
  #next: HttpResponse | null = null;
  #controller: Dispatcher.DispatchController | null = null;
  #body: Body = { kind: 'none' };
  /** Bytes of events that may be parsed before the next yield. */
  #turnBytes = TURN_BYTES;
  #isDropped = false;

  constructor(dispatcher: Dispatcher, request: HttpRequest, handlers: HttpResponseHandlers, redirects = 0) {
    this.#dispatcher = dispatcher;
    this.#request = request;
    this.#handlers = handlers;
    this.#redirects = redirects;
  }

  send(): void {
    const { method, url, headers, body } = this.#request;
    const path = url.pathname + url.search;
    try {
      this.#dispatcher.dispatch({ origin: url.origin, path, method, headers, body }, this);
    } catch (error) {
      this.#refuse(error as Error);
    }
  }

  drop(): void {
    this.#next?.drop();
    if (this.#isDropped) return;
    this.#isDropped = true;
    this.#controller?.abort(DROPPED);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isDropped) controller.abort(DROPPED);
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (this.#isDropped || status < 200) return;
    this.#body = { kind: 'idle', bytes: 0 };
    const { method, url } = this.#request;
    const target = followedRedirect(url, method, status, headers.location);
    if (target !== null && this.#redirects < MAX_REDIRECTS) {
      this.#follow(target);
      return;
    }
    if (status < 200 || status > 299) {
      const challenge = readChallenge(headers['www-authenticate']);
      this.#body = { kind: 'refusal', status, challenge, parts: [], bytes: 0 };
      return;
    }
    if (status === 202) {
      this.#handlers.accepted();
      return;
    }
    this.#open(mediaType(headers['content-type']), headers['content-encoding']);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isDropped) return;
    const body = this.#body;
    switch (body.kind) {
      case 'none':
        return;
      case 'idle':
        body.bytes += chunk.length;
        if (body.bytes > IDLE_BYTES) this.#controller?.abort(DROPPED);
        return;
      case 'refusal':
        body.parts.push(chunk);
        body.bytes += chunk.length;
        if (body.bytes > IDLE_BYTES) {
          this.#reportRefusal(body);
          this.#controller?.abort(DROPPED);
        }
        return;
      case 'json':
        this.#collect(body, chunk);
        return;
      case 'events':
        this.#readEvents(body.reader, chunk, controller);
        return;
    }
  }

  onResponseEnd(): void {
    if (this.#isDropped) return;
    const body = this.#body;
    if (body.kind === 'refusal') this.#reportRefusal(body);
    this.#isDropped = true;
    if (body.kind === 'json') this.#handlers.json(Buffer.concat(body.parts).toString('utf8'));
    if (body.kind === 'json' || body.kind === 'events') this.#handlers.ended(body.kind === 'events');
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#isDropped) return;
    const body = this.#body;
    if (body.kind === 'none') this.#refuse(error);
    else if (body.kind === 'refusal') this.#reportRefusal(body);
    else if (body.kind !== 'idle') {
      this.#isDropped = true;
      this.#handlers.broken();
    }
  }

  #open(type: string, encoding: string | string[] | undefined): void {
    if (encoding !== undefined && encoding !== 'identity') {
      this.#handlers.refused(new Error(`Unexpected content encoding: ${encoding}`)); // the request asks for none
    } else if (type === 'text/event-stream') {
      this.#handlers.opened();
      this.#body = { kind: 'events', reader: new EventStreamReader(this.#handlers) };
    } else if (type === 'application/json') {
      this.#handlers.opened();
      this.#body = { kind: 'json', parts: [], bytes: 0 };
    } else this.#handlers.refused(new Error(`Unexpected content type: ${type === '' ? null : type}`));
  }

  /** Pauses the socket when the yield budget is used up; the rest of the chunk follows in the next turn. */
  #readEvents(reader: EventStreamReader, chunk: Buffer, controller: Dispatcher.DispatchController): void {
    const now = chunk.subarray(0, this.#turnBytes);
    this.#turnBytes -= now.length;
    try {
      reader.push(now);
    } catch {
      // One event of many lines exceeds the limit; its request is unknown.
      this.drop();
      this.#handlers.ended(false);
    }
    if (this.#turnBytes > 0 || this.#isDropped) return;
    controller.pause();
    setImmediate(() => {
      this.#turnBytes = TURN_BYTES;
      if (this.#isDropped) return;
      const rest = chunk.subarray(now.length);
      if (rest.length > 0) this.#readEvents(reader, rest, controller);
      if (this.#turnBytes > 0) controller.resume();
    });
  }

  #collect(body: { readonly parts: Buffer[]; bytes: number }, chunk: Buffer): void {
    body.parts.push(chunk);
    body.bytes += chunk.length;
    if (body.bytes <= this.#handlers.maxMessageBytes) return;
    const head = Buffer.concat(body.parts).subarray(0, HEAD_BYTES);
    this.drop();
    this.#handlers.oversized({ head, tail: chunk.subarray(-TAIL_BYTES), bytes: body.bytes });
  }

  #follow(url: URL): void {
    this.#next = new HttpResponse(this.#dispatcher, { ...this.#request, url }, this.#handlers, this.#redirects + 1);
    this.#next.send();
  }

  #reportRefusal({ status, challenge, parts }: Extract<Body, { kind: 'refusal' }>): void {
    const inSession = SESSION_HEADER in this.#request.headers;
    const text = Buffer.concat(parts).toString('utf8');
    this.#refuse(new StatusError({ status, challenge, inSession, text }));
  }

  #refuse(error: Error): void {
    this.#isDropped = true;
    this.#handlers.refused(error);
  }
}

function mediaType(header: string | string[] | undefined): string {
  const text = typeof header === 'string' ? header : '';
  return text.split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const KEEP_THE_METHOD: ReadonlySet<number> = new Set([307, 308]);

/** Redirects followed per request. */
export const MAX_REDIRECTS = 5;

/**
 * Target of a redirect that is followed; null: it is not. The library's rules apply: the same method, and the same origin
 * or its https form. A call never reaches a host that its record does not name.
 */
export function followedRedirect(from: URL, method: 'GET' | 'POST', status: number, location: unknown): URL | null {
  if (!REDIRECTS.has(status) || typeof location !== 'string') return null;
  if (method !== 'GET' && !KEEP_THE_METHOD.has(status)) return null;
  const to = URL.parse(location, from);
  if (to === null || to.username !== '' || to.password !== '') return null;
  return isWithinOrigin(from, to) ? to : null;
}

function isWithinOrigin(from: URL, to: URL): boolean {
  if (from.protocol === to.protocol && from.host === to.host) return true;
  const isSafer = from.protocol === 'http:' && to.protocol === 'https:';
  return isSafer && from.hostname === to.hostname && from.port === '' && to.port === '';
}
