import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../base/json.ts';
import type { SmsEndpoint, SmsEndpoints } from '../../config/sms/client.ts';
import { connectLocalSocket } from '../../config/sms/local-socket.ts';
import { spearExitCodes } from '../exit-codes.ts';

/** The registry refused a request, or is unreachable. */
export class SmsRequestError extends Error {
  readonly exitCode: number;
  readonly problem: JsonObject | null;

  constructor(message: string, exitCode: number, problem: JsonObject | null = null, cause?: unknown) {
    super(message, { cause });
    this.name = 'SmsRequestError';
    this.exitCode = exitCode;
    this.problem = problem;
  }
}

export interface SmsRequest {
  readonly body?: string;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface SmsAnswer {
  readonly status: number;
  readonly value: JsonValue;
}

const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_ANSWER_BYTES = 512 * 1024 * 1024;

/** Responses and errors without effect on the registry: another address may be tried. */
const NOT_SERVING = 503;
const neverSent: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ENOENT', 'ENOTFOUND', 'EHOSTUNREACH']);

/** HTTP client of a registry. An address that does not answer is replaced by the next one. */
export class SmsClient {
  readonly #endpoints: readonly [SmsEndpoint, ...SmsEndpoint[]];
  readonly #timeoutMs: number;
  #endpoint: SmsEndpoint;

  constructor({ others, ...first }: SmsEndpoints, timeoutMs: number = DEFAULT_TIMEOUT_MS) {
    this.#endpoints = [first, ...others];
    this.#endpoint = first;
    this.#timeoutMs = timeoutMs;
  }

  request(method: string, path: string, options: SmsRequest = {}): Promise<SmsAnswer> {
    return this.#ofAny(method, async () => {
      const { status, text } = await this.#exchange(method, path, options);
      const value = parseJson(text) ?? null;
      if (status < 300) return { status, value };
      throw this.#failure(status, value);
    });
  }

  /** A request that may have taken effect is not repeated, unless it only reads. */
  async #ofAny<T>(method: string, ask: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await ask();
      } catch (error) {
        if (!(error instanceof SmsRequestError) || tries >= this.#endpoints.length) throw error;
        const unreachable = error.exitCode === spearExitCodes.unreachable;
        const untouched = error.problem?.status === NOT_SERVING || neverSent.has(codeOf(error.cause));
        if (!untouched && !(unreachable && method === 'GET')) throw error;
        const next = this.#endpoints[(this.#endpoints.indexOf(this.#endpoint) + 1) % this.#endpoints.length];
        if (next !== undefined) this.#endpoint = next;
      }
    }
  }

  #failure(status: number, value: JsonValue): SmsRequestError {
    const problem = isJsonObject(value) ? value : null;
    const detail = typeof problem?.detail === 'string' ? problem.detail : `HTTP status ${status}`;
    const denied = status === 401 || status === 403;
    if (denied && this.#endpoint.token() === null) {
      const advice = 'no token found: pass --token-file or set SPEAR_SMS_TOKEN';
      return new SmsRequestError(advice, spearExitCodes.denied, problem);
    }
    return new SmsRequestError(detail, denied ? spearExitCodes.denied : spearExitCodes.failed, problem);
  }

  /** A streaming response; the timeout ends with its headers. Aborting the signal ends it. */
  stream(path: string, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<IncomingMessage> {
    return this.#ofAny('GET', () => this.#stream(path, headers, signal));
  }

  async #stream(
    path: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), this.#timeoutMs);
    try {
      const response = await this.#send('GET', path, { headers }, AbortSignal.any([signal, late.signal]));
      const status = response.statusCode ?? 0;
      if (status < 300) return response;
      throw this.#failure(status, parseJson(await readAll(response)) ?? null);
    } catch (error) {
      throw error instanceof SmsRequestError ? error : this.#unreachable(late.signal.aborted, error);
    } finally {
      clearTimeout(timer);
    }
  }

  #send(method: string, path: string, options: SmsRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const { url, socket, ca } = this.#endpoint;
    const token = this.#endpoint.token();
    const send = url.startsWith('https:') ? httpsRequest : httpRequest;
    return new Promise<IncomingMessage>((resolve, reject) => {
      const request = send(`${url}${path}`, {
        method,
        signal,
        ...(ca === null ? {} : { ca }),
        ...(socket === null ? {} : { createConnection: () => connectLocalSocket(socket) }),
        headers: {
          accept: 'application/json',
          ...(options.contentType === undefined ? {} : { 'content-type': options.contentType }),
          ...(token === null ? {} : { authorization: `Bearer ${token.reveal()}` }),
          ...options.headers,
        },
      });
      request.once('response', resolve);
      request.once('error', reject);
      request.end(options.body);
    });
  }

  #unreachable(timedOut: boolean, error: unknown): SmsRequestError {
    const reason = timedOut ? `no response within ${this.#timeoutMs} ms` : describe(error);
    const hint =
      this.#endpoint.socket === null
        ? 'is spear-sms running there? --sms takes the address of its HTTP side'
        : 'start it with "spear-sms", or name another with --sms';
    const message = `cannot connect to the registry at ${this.#endpoint.address}: ${reason}; ${hint}`;
    return new SmsRequestError(message, spearExitCodes.unreachable, null, error);
  }

  async #exchange(method: string, path: string, options: SmsRequest): Promise<{ status: number; text: string }> {
    const signal = AbortSignal.timeout(this.#timeoutMs);
    try {
      const response = await this.#send(method, path, options, signal);
      return { status: response.statusCode ?? 0, text: await readAll(response) };
    } catch (error) {
      throw this.#unreachable(signal.aborted, error);
    }
  }
}

async function readAll(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) throw new Error(`the response exceeds ${MAX_ANSWER_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

function describe(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message ?? String(error);
}
