import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { MODERN_VERSION } from '../../../../src/agent/mcp/client/open-session.ts';
import type { JsonObject } from '../../../../src/base/json.ts';
import { serverEra } from '../../../support/server-era.ts';

export const SESSION = 'session-1';
/** How a client begins. */
export const GREETING = serverEra() === 'modern' ? 'server/discover' : 'initialize';

/** One request to the server, and the way to answer it. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly body: JsonObject;
  /** Of the JSON-RPC request. */
  readonly id: string;
}

export interface HttpAnswers {
  readonly url: string;
  /** Methods of HTTP and of JSON-RPC, in the order in which they came. */
  readonly seen: string[];
  readonly notifications: JsonObject[];
  stop(): void;
}

export interface HttpAnswersOptions {
  /** A call of any tool. */
  onCall(exchange: Exchange): void;
  /** @default there is no stream for notifications */
  onGet?(request: IncomingMessage, response: ServerResponse): void;
}

export const text = (value: string) => ({ content: [{ type: 'text', text: value }] });
export const answer = (id: unknown, value: string) => JSON.stringify({ jsonrpc: '2.0', id, result: text(value) });
export const json = (response: ServerResponse, body: string, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(body);
export const openStream = (response: ServerResponse) =>
  response.writeHead(200, { 'content-type': 'text/event-stream' });

/** What the new era wants in a result that may be kept. */
export const listedFor = (): JsonObject =>
  serverEra() === 'modern' ? { resultType: 'complete', ttlMs: 60_000, cacheScope: 'private' } : {};

/** A server of Streamable HTTP without the SDK, in this process: its calls are answered as a test wants. */
export async function openHttpAnswers({ onCall, onGet }: HttpAnswersOptions): Promise<HttpAnswers> {
  const seen: string[] = [];
  const notifications: JsonObject[] = [];
  const server = createServer(async (request, response) => {
    if (request.method === 'GET') {
      seen.push(`GET ${request.headers['last-event-id'] ?? ''}`.trim());
      if (onGet === undefined) response.writeHead(405).end();
      else onGet(request, response);
      return;
    }
    if (request.method === 'DELETE') {
      response.writeHead(200).end();
      return;
    }
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = JSON.parse(Buffer.concat(parts).toString()) as JsonObject;
    const id = body.id as string;
    if (body.method === 'server/discover' && serverEra() === 'modern') {
      seen.push(String(body.method));
      const result = { supportedVersions: [MODERN_VERSION], capabilities: { tools: {} }, ...listedFor() };
      json(response, JSON.stringify({ jsonrpc: '2.0', id, result }));
      return;
    }
    if (body.method === 'server/discover') {
      // As any server of the old era answers to what it does not know; tests look at what comes after.
      json(response, JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } }));
      return;
    }
    seen.push(String(body.method));
    if (id === undefined) {
      notifications.push(body);
      response.writeHead(202).end();
    } else if (body.method === 'initialize') {
      response.setHeader('mcp-session-id', SESSION);
      const serverInfo = { name: 'answers', version: '1.0.0' };
      const result = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo };
      json(response, JSON.stringify({ jsonrpc: '2.0', id, result }));
    } else if (body.method === 'tools/list') {
      const result = { tools: [{ name: 'say', inputSchema: { type: 'object' } }], ...listedFor() };
      json(response, JSON.stringify({ jsonrpc: '2.0', id, result }));
    } else onCall({ request, response, body, id });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  onTestFinished(stop);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, seen, notifications, stop };
}
