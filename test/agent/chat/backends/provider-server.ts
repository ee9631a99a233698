import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ChatRequest } from '../../../../src/agent/chat/backend.ts';
import type { JsonObject } from '../../../../src/base/json.ts';
import type { CompiledOpenAiBackend } from '../../../../src/config/host/host-config.ts';

export interface SeenRequest {
  url: string;
  headers: IncomingHttpHeaders;
  body: JsonObject;
}

export type Handler = (response: ServerResponse, seen: SeenRequest, count: number) => void;

/** A real HTTP server on loopback that plays the provider and counts what reaches it. */
export class ProviderServer {
  readonly requests: SeenRequest[] = [];
  connections = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #protocol: string;
  #onChange: (() => void)[] = [];

  private constructor(handler: Handler, tls: { key: string; cert: string } | undefined) {
    const listener = async (request: IncomingMessage, response: ServerResponse) => {
      const portions: Buffer[] = [];
      for await (const portion of request) portions.push(portion);
      const body = JSON.parse(Buffer.concat(portions).toString());
      const seen = { url: request.url ?? '', headers: request.headers, body };
      this.requests.push(seen);
      this.#changed();
      response.on('error', () => {});
      handler(response, seen, this.requests.length);
    };
    this.#protocol = tls === undefined ? 'http' : 'https';
    this.#server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
    this.#server.keepAliveTimeout = 60_000;
    this.#server.on('connection', (socket: Socket) => {
      this.connections++;
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        this.#sockets.delete(socket);
        this.#changed();
      });
      this.#changed();
    });
  }

  static async start(handler: Handler, tls?: { key: string; cert: string }): Promise<ProviderServer> {
    const provider = new ProviderServer(handler, tls);
    provider.#server.listen(0, '127.0.0.1');
    await once(provider.#server, 'listening');
    return provider;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get baseUrl(): string {
    return `${this.#protocol}://127.0.0.1:${this.port}/v1`;
  }

  get openSockets(): number {
    return this.#sockets.size;
  }

  /** Resolves as soon as the condition holds; looked at whenever a request or a connection comes or goes. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.#onChange.push(resolve));
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #changed(): void {
    const waiting = this.#onChange;
    this.#onChange = [];
    for (const resolve of waiting) resolve();
  }
}

export function compiledBackend(baseUrl: string, changes: Partial<CompiledOpenAiBackend> = {}): CompiledOpenAiBackend {
  return {
    kind: 'openai',
    name: 'main',
    baseUrl,
    model: 'm',
    images: 'none',
    apiKey: undefined,
    headers: new Map(),
    timeoutMs: 60_000,
    connectTimeoutMs: 10_000,
    maxRetries: 3,
    maxResponseBytes: 1024 * 1024,
    problem: undefined,
    ...changes,
  };
}

export function chat(text = 'hi', more: JsonObject = {}): ChatRequest {
  return { model: 'm', messages: [{ role: 'user', content: text }], ...more };
}

export function completionBody(content = 'hello'): JsonObject {
  return {
    id: 'c1',
    object: 'chat.completion',
    model: 'm',
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content } }],
  };
}

export function sendJson(response: ServerResponse, status: number, body: unknown, headers = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

export function startStream(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
}

export function event(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

export function deltaChunk(delta: JsonObject, finishReason: string | null = null, index = 0): JsonObject {
  return {
    id: 'c1',
    object: 'chat.completion.chunk',
    created: 7,
    model: 'm',
    choices: [{ index, delta, finish_reason: finishReason }],
  };
}

export const never = new AbortController().signal;

/**
 * Lets the event loop turn. undici takes a connection back a turn or two after it has handed out the end of a body, and
 * what a server in this process has written arrives at its client.
 */
export async function aFewTurns(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await nextTurn();
}
