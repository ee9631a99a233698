// Hostile MCP servers over HTTP: /BEHAVIOUR/SEED/mcp is Streamable HTTP, /BEHAVIOUR/SEED/sse the old transport.
// Prints its port. /count tells how many connections are open, and how many requests each behaviour got.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Random } from '../random.ts';
import { type Behaviour, type HostileRequest, honest, type Wire } from './behaviour.ts';
import { flood } from './flood.ts';
import { type HttpBehaviour, httpBehaviours } from './http-behaviours.ts';
import { messageBehaviours } from './message-behaviours.ts';

const requests: Record<string, number> = {};
/** Where the old transport writes, by its path. */
const streams = new Map<string, ServerResponse>();

const server = createServer(async (request, response) => {
  request.on('error', () => {});
  response.on('error', () => {});
  if (request.url === '/count') {
    const open = await new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
    response.end(JSON.stringify({ open, requests }));
    return;
  }
  const [, encoded = '', seed = '', kind = ''] = (request.url ?? '').split('?')[0]?.split('/') ?? [];
  const name = decodeURIComponent(encoded);
  requests[name] = (requests[name] ?? 0) + 1;
  const message = await bodyOf(request);
  const random = new Random(Number(seed) + (requests[name] ?? 0));
  const isSse = kind !== 'mcp';
  const http: HttpBehaviour | undefined = httpBehaviours[name];
  if (http?.handle({ request, response, message, random, isSse }) === 'done') return;
  const behaviour = messageBehaviours[name] ?? null;
  if (isSse) oldTransport(request, response, message, behaviour, random);
  else streamable(request, response, message, behaviour, random);
});

async function bodyOf(request: IncomingMessage): Promise<HostileRequest | null> {
  try {
    const text = Buffer.concat(await request.toArray()).toString();
    return text === '' ? null : (JSON.parse(text) as HostileRequest);
  } catch {
    return null;
  }
}

const eventStream = { 'content-type': 'text/event-stream', 'mcp-session-id': 'session' };
const framed = (text: string) => `event: message\ndata: ${text}\n\n`;

function wireOf(stream: ServerResponse): Wire {
  const write = (bytes: string | Buffer): undefined => {
    if (stream.writable && !stream.destroyed) stream.write(bytes);
  };
  return {
    message: (value) => write(framed(JSON.stringify(value))),
    text: (text) => write(framed(text)),
    raw: write,
    close: () => void stream.end(),
    die: () => void stream.destroy(),
    forEver: (more) => void flood(stream, more),
  };
}

const mild: Behaviour = { on: honest };

function streamable(
  { method }: IncomingMessage,
  response: ServerResponse,
  message: HostileRequest | null,
  behaviour: Behaviour | null,
  random: Random,
): void {
  if (method !== 'POST' || message === null) response.writeHead(method === 'DELETE' ? 200 : 405).end();
  else if (message.id === undefined) response.writeHead(202).end();
  else {
    response.writeHead(200, eventStream);
    if ((behaviour ?? mild).on(message, wireOf(response), random) !== 'open' && !response.destroyed) response.end();
  }
}

function oldTransport(
  request: IncomingMessage,
  response: ServerResponse,
  message: HostileRequest | null,
  behaviour: Behaviour | null,
  random: Random,
): void {
  const [path = ''] = (request.url ?? '').split('?');
  if (request.method === 'GET') {
    response.writeHead(200, eventStream);
    response.write(`event: endpoint\ndata: ${path}?session=1\n\n`);
    streams.set(path, response);
    return;
  }
  response.writeHead(202).end();
  const stream = streams.get(path);
  if (stream && message) (behaviour ?? mild).on(message, wireOf(stream), random);
}

server.maxRequestsPerSocket = 0;
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
