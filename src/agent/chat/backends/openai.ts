import { setTimeout as delay } from 'node:timers/promises';
import { type Dispatcher, errors } from 'undici';
import { errorCode } from '../../../base/errors.ts';
import type { JsonObject } from '../../../base/json.ts';
import { ignoreWaits, type Waiting, whileWaiting } from '../../../base/listeners.ts';
import type { CompiledOpenAiBackend, CompiledProxy } from '../../../config/host/host-config.ts';
import { knownSecrets } from '../../../server/secrets/redactor.ts';
import {
  type AnswerDeltas,
  type AskedBy,
  answerOf,
  BackendError,
  type ChatBackend,
  type ChatRequest,
  type ImagePlacement,
} from '../backend.ts';
import {
  BackendFailures,
  isRetriedStatus,
  isTransientConnectionError,
  parseRetryAfter,
  providerMessage,
  type RetryTiming,
  retryDelayMs,
} from './failures.ts';
import { type Answer, Ending, openDispatcher, post, type ReadBody } from './post.ts';
import { answerReader, CleanDeltas, ErrorTextReader } from './read-answer.ts';
import { requestBody } from './request-body.ts';

const realTiming: RetryTiming = {
  now: () => Date.now(),
  random: () => Math.random(),
  sleep: (ms, signal) => delay(ms, undefined, { signal }),
};

export interface OpenAiBackendDeps {
  proxy: CompiledProxy;
  /** @default the real clock */
  timing?: RetryTiming | undefined;
  /** @default none */
  waiting?: Waiting | undefined;
}

interface Endpoint {
  readonly origin: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

interface AskedRequest {
  readonly body: string;
  readonly what: string;
  readonly deltas: AnswerDeltas | null;
  readonly traceparent: string | undefined;
}

type Outcome = { answer: JsonObject } | { failure: BackendError; mayRetry: boolean };

/**
 * Backend for providers with an OpenAI-compatible `/chat/completions`.
 *
 * Each request has one deadline that includes its retries. Retries stop once a 2xx response has started. Errors and
 * answers are redacted, because a gateway may echo the key. Requests run concurrently over one keep-alive pool.
 */
export class OpenAiBackend implements ChatBackend {
  readonly name: string;
  readonly model: string | undefined;
  readonly images: ImagePlacement;
  readonly #config: CompiledOpenAiBackend;
  readonly #endpoint: Endpoint;
  readonly #dispatcher: Dispatcher;
  readonly #timing: RetryTiming;
  readonly #waiting: Waiting;
  readonly #failures: BackendFailures;
  readonly #running = new Set<Ending>();
  #closing: Promise<void> | undefined;

  constructor(config: CompiledOpenAiBackend, deps: OpenAiBackendDeps) {
    this.name = config.name;
    this.model = config.model;
    this.images = config.images;
    this.#config = config;
    const url = new URL(config.baseUrl);
    url.pathname = `${url.pathname.replace(/\/+$/, '')}/chat/completions`;
    this.#endpoint = { origin: url.origin, path: url.pathname + url.search, headers: headersOf(config) };
    this.#dispatcher = openDispatcher(url, deps.proxy, config.connectTimeoutMs);
    this.#timing = deps.timing ?? realTiming;
    this.#waiting = deps.waiting ?? ignoreWaits;
    const secrets = [...config.headers.values(), ...(config.apiKey === undefined ? [] : [config.apiKey])];
    const redact = knownSecrets.scoped(secrets.map((secret) => secret.reveal()));
    this.#failures = new BackendFailures(config.name, redact);
  }

  async complete(request: ChatRequest, signal: AbortSignal, by?: AskedBy): Promise<JsonObject> {
    signal.throwIfAborted();
    if (this.#closing !== undefined) throw this.#failures.closed();
    const { timeoutMs } = this.#config;
    const running = new Ending();
    const cancel = () => running.end(signal.reason);
    signal.addEventListener('abort', cancel, { once: true });
    const timer = setTimeout(() => running.end(this.#failures.timeout(timeoutMs)), timeoutMs);
    this.#running.add(running);
    try {
      const leftMs = Math.min(timeoutMs, by?.timeLeftMs ?? timeoutMs);
      const deltas = by?.deltas ?? null;
      const sent = deltas === null ? request : { ...request, stream: true };
      const traceparent = by?.traceparent;
      const asked = { body: requestBody(sent), what: answerOf(this.name, request.model), deltas, traceparent };
      return await this.#tryUntil(this.#timing.now() + leftMs, asked, running);
    } catch (error) {
      // The reason of an aborted request takes precedence over the error that the abort caused.
      running.throwIfOver();
      throw error;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
      this.#running.delete(running);
    }
  }

  /** Aborts the requests in flight and closes all connections. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    for (const running of this.#running) running.end(this.#failures.closed());
    await this.#dispatcher.destroy();
  }

  async #tryUntil(
    deadline: number,
    { body, what, deltas, traceparent }: AskedRequest,
    running: Ending,
  ): Promise<JsonObject> {
    for (let attempt = 0; ; attempt++) {
      const began = once(this.#waiting({ what, atMostMs: deadline - this.#timing.now() }));
      const clean = deltas && new CleanDeltas(deltas, began);
      const outcome = await this.#try(body, running, clean, traceparent).finally(began);
      if ('answer' in outcome) return outcome.answer;
      if (!outcome.mayRetry || attempt >= this.#config.maxRetries) throw outcome.failure;
      const { retryAfterMs } = outcome.failure;
      const wait = retryDelayMs(attempt, retryAfterMs, this.#timing);
      // The provider's error is more useful than the timeout that would follow.
      if (this.#timing.now() + Math.max(wait, retryAfterMs ?? 0) >= deadline) throw outcome.failure;
      const another = { what: `a retry: ${outcome.failure.message}`, atMostMs: wait };
      await whileWaiting(this.#waiting, another, this.#timing.sleep(wait, running.signal));
    }
  }

  /** One attempt. After a 2xx response no retry is possible, because deltas were emitted. */
  async #try(
    body: string,
    running: Ending,
    deltas: CleanDeltas | null,
    traceparent: string | undefined,
  ): Promise<Outcome> {
    let answer: Answer<JsonObject | string>;
    const endpoint = traceparent === undefined ? this.#endpoint : tracedEndpoint(this.#endpoint, traceparent);
    try {
      answer = await post(this.#dispatcher, { ...endpoint, body }, this.#reader(deltas), running);
    } catch (error) {
      if (error instanceof BackendError) throw error;
      return this.#unreachable(error);
    }
    const { status, headers, body: said } = answer;
    if (typeof said !== 'string') return { answer: said };
    const retryAfterMs = parseRetryAfter(headers['retry-after']?.toString(), this.#timing.now());
    return {
      failure: this.#failures.refused(status, refusalText(status, said), retryAfterMs),
      mayRetry: isRetriedStatus(status),
    };
  }

  readonly #reader =
    (deltas: CleanDeltas | null): ReadBody<JsonObject | string> =>
    (status, headers) =>
      status >= 200 && status <= 299
        ? answerReader(headers, this.#config.maxResponseBytes, this.#failures, deltas)
        : new ErrorTextReader();

  #unreachable(error: unknown): Outcome {
    if (error instanceof errors.HTTPParserError) {
      const failure = this.#failures.badResponse('it is not HTTP');
      return { failure, mayRetry: false };
    }
    const code = errorCode(error);
    const transient = isTransientConnectionError(code);
    const message = error instanceof Error ? error.message.split('\n', 1)[0] : undefined;
    const reason = [code, message].filter(Boolean).join(': ') || 'unknown error';
    const failure = this.#failures.unreachable(this.#endpoint.origin, reason, transient);
    return { failure, mayRetry: transient };
  }
}

/** The wait for an answer ends with its first delta, or with the whole answer. */
function once(over: () => void): () => void {
  let left: (() => void) | null = over;
  return () => {
    left?.();
    left = null;
  };
}

const tracedEndpoint = (endpoint: Endpoint, traceparent: string): Endpoint => ({
  ...endpoint,
  headers: { ...endpoint.headers, traceparent },
});

function headersOf(config: CompiledOpenAiBackend): Record<string, string> {
  const headers: Record<string, string> = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
  };
  for (const [name, value] of config.headers) headers[name] = value.reveal();
  if (config.apiKey !== undefined) headers.authorization = `Bearer ${config.apiKey.reveal()}`;
  return headers;
}

function refusalText(status: number, said: string): string {
  if (status >= 300 && status <= 399) return 'redirects are not followed; correct base_url';
  return providerMessage(said);
}
