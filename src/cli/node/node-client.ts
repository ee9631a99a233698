import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { errorCode, errorText } from '../../base/error-text.ts';
import { isJsonObject, type JsonValue, parseJson } from '../../base/json.ts';
import type { NodeEndpoint } from '../../config/node/client.ts';
import { connectLocalSocket } from '../../config/sms/local-socket.ts';
import { spearExitCodes } from '../exit-codes.ts';

/** The node or registry refused a request, or is unreachable. */
export class NodeRequestError extends Error {
  readonly exitCode: number;
  readonly status: number;
  /** Last part of the problem type; empty: the response is no problem document. */
  readonly kind: string;

  constructor(message: string, exitCode: number, status = 0, kind = '', cause?: unknown) {
    super(message, { cause });
    this.name = 'NodeRequestError';
    this.exitCode = exitCode;
    this.status = status;
    this.kind = kind;
  }
}

export interface NodeRequest {
  readonly body?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** Names of the other side in messages, and the variable of its token. */
export interface PeerWords {
  readonly peer: string;
  readonly command: string;
  readonly tokenVariable: string;
}

export const nodeWords: PeerWords = { peer: 'node', command: 'spearlet', tokenVariable: 'SPEAR_NODE_TOKEN' };
export const registryWords: PeerWords = { peer: 'registry', command: 'spear-sms', tokenVariable: 'SPEAR_SMS_TOKEN' };

const TIMEOUT_MS = 30_000;
const MAX_ANSWER_BYTES = 1024 * 1024 * 1024;

const PROBLEM = 'urn:spear:problem:';
const NOT_SERVING = 503;
const neverSent: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ENOENT', 'ENOTFOUND', 'EHOSTUNREACH']);

/** HTTP client of a node or a registry. An address that does not answer is replaced by the next one. */
export class NodeClient {
  readonly #endpoints: readonly NodeEndpoint[];
  readonly #words: PeerWords;
  #endpoint: NodeEndpoint;

  constructor(
    { others = [], ...first }: NodeEndpoint & { readonly others?: readonly NodeEndpoint[] },
    words: PeerWords = nodeWords,
  ) {
    this.#endpoints = [first, ...others];
    this.#endpoint = first;
    this.#words = words;
  }

  /** For messages: `the node at …`. */
  get description(): string {
    return `the ${this.#words.peer} at ${this.#endpoint.address}`;
  }

  async json(method: string, path: string, request: NodeRequest = {}): Promise<JsonValue> {
    return parseJson(Buffer.from(await this.bytes(method, path, request)).toString('utf8')) ?? null;
  }

  async bytes(method: string, path: string, request: NodeRequest = {}): Promise<Uint8Array> {
    const response = await this.open(method, path, request);
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > MAX_ANSWER_BYTES) throw new NodeRequestError('the response is too large', spearExitCodes.failed);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }

  /** A response whose body is still to be read. @throws NodeRequestError for a problem document */
  async open(method: string, path: string, request: NodeRequest = {}): Promise<IncomingMessage> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#open(method, path, request);
      } catch (error) {
        if (!(error instanceof NodeRequestError) || tries >= this.#endpoints.length) throw error;
        // A request that may have taken effect is not repeated, unless it only reads.
        const untouched = error.status === NOT_SERVING || neverSent.has(errorCode(error.cause));
        if (!untouched && !(error.status === 0 && method === 'GET')) throw error;
        const next = (this.#endpoints.indexOf(this.#endpoint) + 1) % this.#endpoints.length;
        this.#endpoint = this.#endpoints[next] ?? this.#endpoint;
      }
    }
  }

  async #open(method: string, path: string, { body, headers, timeoutMs = TIMEOUT_MS, signal }: NodeRequest) {
    const response = await this.#send(method, path, body, headers, timeoutMs, signal);
    const status = response.statusCode ?? 0;
    if (status < 300) return response;
    const chunks: Buffer[] = [];
    for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
    const problem = parseJson(Buffer.concat(chunks).toString('utf8'));
    const { detail, type = '' } = isJsonObject(problem ?? null) ? (problem as { detail?: unknown; type?: string }) : {};
    const denied = status === 401 || status === 403;
    const advice =
      denied && this.#endpoint.token() === null
        ? `no token found: pass --token-file or set ${this.#words.tokenVariable}`
        : String(detail ?? `HTTP status ${status}`);
    const kind = type.startsWith(PROBLEM) ? type.slice(PROBLEM.length) : '';
    throw new NodeRequestError(advice, denied ? spearExitCodes.denied : spearExitCodes.failed, status, kind);
  }

  #send(
    method: string,
    path: string,
    body: string | Uint8Array | undefined,
    headers: Readonly<Record<string, string>> = {},
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<IncomingMessage> {
    const { url, socket, address, ca = null } = this.#endpoint;
    const { peer, command } = this.#words;
    const token = this.#endpoint.token();
    const send = url.startsWith('https:') ? httpsRequest : httpRequest;
    return new Promise<IncomingMessage>((resolve, reject) => {
      const request = send(`${url}${path}`, {
        method,
        ...(signal === undefined ? {} : { signal }),
        ...(ca === null ? {} : { ca }),
        ...(socket === null ? {} : { createConnection: () => connectLocalSocket(socket) }),
        headers: {
          ...(token === null ? {} : { authorization: `Bearer ${token.reveal()}` }),
          ...(body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }),
          ...headers,
        },
      });
      const timer = setTimeout(() => request.destroy(new Error(`no response within ${timeoutMs} ms`)), timeoutMs);
      request.once('response', (response) => {
        clearTimeout(timer);
        resolve(response);
      });
      request.once('error', (error) => {
        clearTimeout(timer);
        if (signal?.aborted) return reject(error);
        const why = errorCode(error) ?? errorText(error);
        const start = socket === null ? `is ${command} running there?` : `start it with "${command}", or name another`;
        const message = `cannot connect to the ${peer} at ${address}: ${why}; ${start}`;
        reject(new NodeRequestError(message, spearExitCodes.unreachable, 0, '', error));
      });
      request.end(body);
    });
  }
}
