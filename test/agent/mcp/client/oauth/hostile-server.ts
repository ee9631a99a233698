import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void;

export interface HostileServer {
  readonly origin: string;
  /** Path, authorization and body of each request. */
  readonly seen: string[];
}

/**
 * A fake of an MCP server and its authorization server. It answers by path, with or without the query, then as `other`
 * says; `/mcp` with a 401 unless said otherwise.
 */
export async function startHostileServer(
  answers: (origin: string) => Readonly<Record<string, Answer>>,
): Promise<HostileServer> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const byPath = answers(origin);
  const seen: string[] = [];
  server.on('request', async (request: IncomingMessage, response: ServerResponse) => {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    const { url = '' } = request;
    const { pathname } = new URL(url, origin);
    seen.push(`${url} ${request.headers.authorization ?? ''} ${body}`);
    const answer = byPath[url] ?? byPath[pathname] ?? byPath.other;
    if (answer !== undefined) answer(request, response, body);
    else if (pathname === '/mcp') challenge('Bearer')(request, response, body);
    else response.writeHead(404).end();
  });
  return { origin, seen };
}

export const json =
  (value: unknown, status = 200): Answer =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  };

/** A 401 with this `WWW-Authenticate`. */
export const challenge =
  (header: string): Answer =>
  (_request, response) => {
    response.writeHead(401, { 'www-authenticate': header }).end();
  };
