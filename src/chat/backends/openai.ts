import { setTimeout as delay } from 'node:timers/promises';
import { type Dispatcher, errors } from 'undici';
import { abortWith } from '../../base/abort.ts';
import { errorCode } from '../../base/error-text.ts';
import { isJsonObject, type JsonObject } from '../../base/json.ts';
import type { CompiledOpenAiBackend, CompiledProxy } from '../../config/host/host-config.ts';
import { knownSecrets } from '../../secrets/redactor.ts';
import type { BackendError, ChatBackend, ChatRequest } from '../backend.ts';
import { openDispatcher } from './dispatcher.ts';
import { BackendFailures, providerMessage } from './failures.ts';
import { readAnswer, readErrorText } from './read-answer.ts';
import {
  isRetriedStatus,
  isTransientConnectionError,
  parseRetryAfter,
  type RetryTiming,
  retryDelayMs,
} from './retry.ts';

const realTiming: RetryTiming = {
  now: () => Date.now(),
  random: () => Math.random(),
  sleep: (ms, signal) => delay(ms, undefined, { signal }),
};

export interface OpenAiBackendDeps {
  proxy: CompiledProxy;
  /** @default the real clock */
  timing?: RetryTiming | undefined;
}

type Outcome = { answer: JsonObject } | { failure: BackendError; mayRetry: boolean; retryAfterMs: number | undefined };

/** Any provider with an OpenAI-compatible `/chat/completions`. */
export class OpenAiBackend implements ChatBackend {
  readonly name: string;
  readonly model: string | undefined;
  readonly #config: CompiledOpenAiBackend;
  readonly #url: URL;
  readonly #dispatcher: Dispatcher;
  readonly #timing: RetryTiming;
  readonly #failures: BackendFailures;
  readonly #running = new Set<AbortController>();
  #closing: Promise<void> | undefined;

  constructor(config: CompiledOpenAiBackend, deps: OpenAiBackendDeps) {
    this.name = config.name;
    this.model = config.model;
    this.#config = config;
    this.#url = new URL(config.baseUrl);
    this.#url.pathname = `${this.#url.pathname.replace(/\/+$/, '')}/chat/completions`;
    this.#dispatcher = openDispatcher(this.#url, deps.proxy, config.connectTimeoutMs);
    this.#timing = deps.timing ?? realTiming;
    const secrets = [...config.headers.values(), ...(config.apiKey === undefined ? [] : [config.apiKey])];
    const redact = knownSecrets.scoped(secrets.map((secret) => secret.reveal()));
    this.#failures = new BackendFailures(config.name, redact);
  }

  async complete(request: ChatRequest, signal: AbortSignal): Promise<JsonObject> {
    signal.throwIfAborted();
    if (this.#closing !== undefined) throw this.#failures.closed();
    const { timeoutMs } = this.#config;
    const running = new AbortController();
    const unlink = abortWith(running, signal);
    const timer = setTimeout(() => running.abort(this.#failures.timeout(timeoutMs)), timeoutMs);
    this.#running.add(running);
    try {
      return await this.#tryUntil(this.#timing.now() + timeoutMs, bodyOf(request), running.signal);
    } catch (error) {
      // Whatever an aborted request fails with, the reason of the abort is what happened.
      running.signal.throwIfAborted();
      throw error;
    } finally {
      clearTimeout(timer);
      unlink();
      this.#running.delete(running);
    }
  }

  /** Ends what is running and closes every connection. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    for (const running of this.#running) running.abort(this.#failures.closed());
    await this.#dispatcher.destroy();
  }

  async #tryUntil(deadline: number, body: string, signal: AbortSignal): Promise<JsonObject> {
    for (let attempt = 0; ; attempt++) {
      const outcome = await this.#try(body, signal);
      if ('answer' in outcome) return outcome.answer;
      if (!outcome.mayRetry || attempt >= this.#config.maxRetries) throw outcome.failure;
      const wait = retryDelayMs(attempt, outcome.retryAfterMs, this.#timing);
      // The provider's own words say more than a timeout that is certain to come.
      if (this.#timing.now() + wait >= deadline) throw outcome.failure;
      await this.#timing.sleep(wait, signal);
    }
  }

  /** One request. Once a 2xx has arrived there is no way back to a retry: the answer is being used. */
  async #try(body: string, signal: AbortSignal): Promise<Outcome> {
    let response: Dispatcher.ResponseData;
    try {
      response = await this.#dispatcher.request({
        origin: this.#url.origin,
        path: this.#url.pathname + this.#url.search,
        method: 'POST',
        headers: this.#headers(),
        body,
        signal,
      });
    } catch (error) {
      return this.#unreachable(error);
    }
    const { statusCode, headers } = response;
    if (statusCode >= 200 && statusCode <= 299) {
      const answer = { body: response.body, contentType: String(headers['content-type'] ?? '').toLowerCase() };
      // A gateway that repeats what it was sent must not give the guest its key.
      return { answer: knownSecrets.clean(await readAnswer(answer, this.#config.maxResponseBytes, this.#failures)) };
    }
    const said = await readErrorText(response.body, this.#failures);
    return {
      failure: this.#failures.refused(statusCode, refusalText(statusCode, said)),
      mayRetry: isRetriedStatus(statusCode),
      retryAfterMs: parseRetryAfter(headers['retry-after']?.toString(), this.#timing.now()),
    };
  }

  #unreachable(error: unknown): Outcome {
    if (error instanceof errors.HTTPParserError) {
      const failure = this.#failures.badResponse('it is not HTTP');
      return { failure, mayRetry: false, retryAfterMs: undefined };
    }
    const code = errorCode(error);
    const transient = isTransientConnectionError(code);
    const message = error instanceof Error ? error.message.split('\n', 1)[0] : undefined;
    const reason = [code, message].filter(Boolean).join(': ') || 'unknown error';
    const failure = this.#failures.unreachable(this.#url.origin, reason, transient);
    return { failure, mayRetry: transient, retryAfterMs: undefined };
  }

  #headers(): Record<string, string> {
    const headers: Record<string, string> = {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
    };
    for (const [name, value] of this.#config.headers) headers[name] = value.reveal();
    if (this.#config.apiKey !== undefined) headers.authorization = `Bearer ${this.#config.apiKey.reveal()}`;
    return headers;
  }
}

/** A stream is asked to tell its token usage, as an answer in one piece does, unless the guest decided about that. */
function bodyOf(request: ChatRequest): string {
  if (request.stream !== true) return JSON.stringify(request);
  const given = request.stream_options;
  if (given !== undefined && given !== null && !isJsonObject(given)) return JSON.stringify(request);
  return JSON.stringify({ ...request, stream_options: { include_usage: true, ...given } });
}

function refusalText(status: number, said: string): string {
  if (status >= 300 && status <= 399) return 'redirects are not followed; correct base_url';
  return providerMessage(said);
}
