import type { Dispatcher } from 'undici';
import { type CallHeaders, NO_HEADERS } from '../header-parameters.ts';
import { type TokenRefusal, tokenRefusal } from '../oauth/challenge.ts';
import type { ServerTokens } from '../oauth/server-tokens.ts';
import { HttpResponse, type HttpResponseHandlers } from './http-response.ts';
import type { OversizedLine } from './line-framer.ts';
import { ResumePace } from './resume-pace.ts';
import { StatusError } from './transport-failure.ts';

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
