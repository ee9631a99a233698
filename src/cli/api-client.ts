import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { certificateHint, errorCode, errorText } from '../base/errors.ts';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../base/json.ts';
import { connectLocalSocket } from '../config/local-socket.ts';
import type { NodeEndpoint } from '../config/node/node-endpoint.ts';
import { spearExitCodes } from './exit-codes.ts';

/** The node or registry refused a request, or is unreachable. */
export class RequestError extends Error {
  readonly exitCode: number;
  /** HTTP status; 0: no response. */
  readonly status: number;
  readonly problem: JsonObject | null;

  constructor(message: string, exitCode: number, status = 0, problem: JsonObject | null = null, cause?: unknown) {
    super(message, { cause });
    this.name = 'RequestError';
    this.exitCode = exitCode;
    this.status = status;
    this.problem = problem;
  }
}

export interface ApiRequest {
  readonly body?: string | Uint8Array;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface ApiResponse {
  readonly status: number;
  readonly value: JsonValue;
}

/** The other side in messages. */
interface Peer {
  readonly name: string;
  readonly command: string;
  readonly flag: string;
  readonly tokenVariable: string;
}

export const nodePeer: Peer = { name: 'node', command: 'spearlet', flag: '--node', tokenVariable: 'SPEAR_NODE_TOKEN' };
export const registryPeer: Peer = {
  name: 'registry',
  command: 'spear-sms',
  flag: '--sms',
  tokenVariable: 'SPEAR_SMS_TOKEN',
};

const TIMEOUT_MS = 30_000;
const MAX_RESPONSE_BYTES = 1024 * 1024 * 1024;

/** Responses and errors without effect on the other side: another address may be tried. */
const NOT_SERVING = 503;
const neverSent: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ENOENT', 'ENOTFOUND', 'EHOSTUNREACH']);

/** HTTP client of a registry or a node. An address that does not answer is replaced by the next one. */
export class ApiClient {
  readonly #endpoints: readonly NodeEndpoint[];
  readonly #peer: Peer;
  readonly #timeoutMs: number;
  #endpoint: NodeEndpoint;

  constructor(
    { others = [], ...first }: NodeEndpoint & { readonly others?: readonly NodeEndpoint[] },
    peer: Peer,
    timeoutMs: number = TIMEOUT_MS,
  ) {
    this.#endpoints = [first, ...others];
    this.#endpoint = first;
    this.#peer = peer;
    this.#timeoutMs = timeoutMs;
  }

  /** For messages: `the node at …`. */
  get description(): string {
    return `the ${this.#peer.name} at ${this.#endpoint.address}`;
  }

  /** One exchange; the timeout includes the response body. */
  request(method: string, path: string, request: ApiRequest = {}): Promise<ApiResponse> {
    return this.#ofAny(method, async () => {
      const timeoutMs = request.timeoutMs ?? this.#timeoutMs;
      const signal = AbortSignal.timeout(timeoutMs);
      try {
        const response = await this.#open(method, path, { ...request, signal });
        return {
          status: response.statusCode ?? 0,
          value: parseJson((await readAll(response)).toString('utf8')) ?? null,
        };
      } catch (error) {
        if (error instanceof RequestError) throw error;
        throw this.#unreachable(signal.aborted ? new Error(`no response within ${timeoutMs} ms`) : error);
      }
    });
  }

  async json(method: string, path: string, request: ApiRequest = {}): Promise<JsonValue> {
    return (await this.request(method, path, request)).value;
  }

  async bytes(method: string, path: string): Promise<Uint8Array> {
    return readAll(await this.open(method, path));
  }

  /** A response whose body is still to be read; the timeout ends with its headers. Aborting the signal ends it. */
  open(method: string, path: string, request: ApiRequest = {}): Promise<IncomingMessage> {
    return this.#ofAny(method, () => this.#open(method, path, request));
  }

  /** A request that may have taken effect is not repeated, unless it only reads. */
  async #ofAny<T>(method: string, ask: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await ask();
      } catch (error) {
        if (!(error instanceof RequestError) || tries >= this.#endpoints.length) throw error;
        const untouched = error.status === NOT_SERVING || neverSent.has(errorCode(error.cause));
        if (!untouched && !(error.status === 0 && method === 'GET')) throw error;
        const next = (this.#endpoints.indexOf(this.#endpoint) + 1) % this.#endpoints.length;
        this.#endpoint = this.#endpoints[next] ?? this.#endpoint;
      }
    }
  }

  async #open(method: string, path: string, request: ApiRequest): Promise<IncomingMessage> {
    const response = await this.#send(method, path, request);
    const status = response.statusCode ?? 0;
    if (status < 300) return response;
    const value = parseJson((await readAll(response)).toString('utf8')) ?? null;
    const problem = isJsonObject(value) ? value : null;
    const denied = status === 401 || status === 403;
    const message =
      denied && this.#endpoint.token() === null
        ? `no token found: pass --token-file or set ${this.#peer.tokenVariable}`
        : String(problem?.detail ?? `HTTP status ${status}`);
    throw new RequestError(message, denied ? spearExitCodes.denied : spearExitCodes.failed, status, problem);
  }

  #send(method: string, path: string, request: ApiRequest): Promise<IncomingMessage> {
    const { body, contentType, headers = {}, timeoutMs = this.#timeoutMs, signal } = request;
    const { url, socket, ca = null } = this.#endpoint;
    const token = this.#endpoint.token();
    const send = url.startsWith('https:') ? httpsRequest : httpRequest;
    return new Promise<IncomingMessage>((resolve, reject) => {
      const sent = send(`${url}${path}`, {
        method,
        ...(signal === undefined ? {} : { signal }),
        ...(ca === null ? {} : { ca }),
        ...(socket === null ? {} : { createConnection: () => connectLocalSocket(socket) }),
        headers: {
          accept: 'application/json',
          ...(contentType === undefined ? {} : { 'content-type': contentType }),
          ...(token === null ? {} : { authorization: `Bearer ${token.reveal()}` }),
          ...(body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }),
          ...headers,
        },
      });
      const timer = setTimeout(() => sent.destroy(new Error(`no response within ${timeoutMs} ms`)), timeoutMs);
      sent.once('response', (response) => {
        clearTimeout(timer);
        resolve(response);
      });
      sent.once('error', (error) => {
        clearTimeout(timer);
        reject(signal?.aborted ? error : this.#unreachable(error));
      });
      sent.end(body);
    });
  }

  #unreachable(error: unknown): RequestError {
    const { command, flag } = this.#peer;
    const certificate = certificateHint(errorCode(error), command, '--ca');
    const hint =
      certificate ??
      (this.#endpoint.socket === null
        ? `is ${command} running there? ${flag} takes the address of its HTTP side`
        : `start it with "${command}", or name another with ${flag}`);
    const message = `cannot connect to ${this.description}: ${errorCode(error) ?? errorText(error)}; ${hint}`;
    return new RequestError(message, spearExitCodes.unreachable, 0, null, error);
  }
}

async function readAll(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_RESPONSE_BYTES) {
      throw new RequestError(`the response exceeds ${MAX_RESPONSE_BYTES} bytes`, spearExitCodes.failed, 200);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
