import type { IncomingMessage, ServerResponse } from 'node:http';
import { constants, gzipSync } from 'node:zlib';
import type { Random } from '../random.ts';
import { answer, type HostileRequest, honestResult } from './behaviour.ts';
import { flood } from './flood.ts';

export interface HttpExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly message: HostileRequest | null;
  readonly random: Random;
  /** Whether it is the old transport, where answers come over the stream of a GET. */
  readonly isSse: boolean;
}

export interface HttpBehaviour {
  /** `done`: nothing more is to be said to this request. */
  handle(exchange: HttpExchange): 'done' | undefined;
}

const statuses = [400, 401, 402, 403, 404, 405, 406, 409, 410, 413, 418, 429, 500, 502, 503, 504, 599];
const json = { 'content-type': 'application/json' };
const events = { 'content-type': 'text/event-stream' };

/** Honest over plain JSON but for what it does to one kind of request; over the old transport, to its stream. */
const at = (
  stage: 'initialize' | 'tools/list' | 'tools/call' | 'anything',
  act: (response: ServerResponse, exchange: HttpExchange) => unknown,
): HttpBehaviour => ({
  handle: (exchange) => {
    const { request, response, message, isSse } = exchange;
    const isConcerned = isSse ? stage === 'initialize' || message?.method === stage : message?.method === stage;
    if (stage === 'anything' || isConcerned) act(response, exchange);
    else if (isSse || message?.id === undefined || request.method !== 'POST') return undefined;
    else response.writeHead(200, json).end(JSON.stringify(answer(message)));
    return 'done';
  },
});

const refuses = (stage: 'initialize' | 'tools/list' | 'tools/call') =>
  at(stage, (response, { random }) => {
    const retry = random.pick(['0', '-1', '99999999999', 'soon']);
    response.writeHead(random.pick(statuses), { 'retry-after': retry, 'www-authenticate': 'Bearer x="' });
    response.end('<html>\u001b[2Jno</html>'.repeat(random.pick([1, 10_000])));
  });

/** A bomb of 64 MiB in 64 KiB. */
const bomb = () => gzipSync(Buffer.alloc(64 * 1024 * 1024, 0x20), { level: constants.Z_BEST_SPEED });
let packed: Buffer | null = null;

const bodyOf = ({ message }: HttpExchange) => JSON.stringify(message === null ? {} : answer(message));

/** Behaviours of HTTP itself, below any message. */
export const httpBehaviours: Readonly<Record<string, HttpBehaviour>> = {
  'refuses initialize': refuses('initialize'),
  'refuses tools/list': refuses('tools/list'),
  'refuses tools/call': refuses('tools/call'),
  'redirects in a circle': at('anything', (response, { request }) =>
    response.writeHead(307, { location: `${request.url}` }).end(),
  ),
  'redirects without end': at('anything', (response, { request, random }) =>
    response.writeHead(308, { location: `${request.url?.split('?')[0]}?${random.bits()}` }).end(),
  ),
  'redirects to somebody else': at('initialize', (response) =>
    response.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data/' }).end(),
  ),
  'takes the connection and says nothing': at('anything', () => {}),
  'says nothing to tools/call': at('tools/call', () => {}),
  'another content type': at('tools/call', (response, exchange) =>
    response
      .writeHead(200, { 'content-type': exchange.random.pick(['text/html', 'image/png', '', 'a'.repeat(5_000)]) })
      .end(bodyOf(exchange)),
  ),
  'an empty answer': at('tools/call', (response) => response.writeHead(200, json).end()),
  'an answer that it does not give': at('tools/call', (response) => response.writeHead(202).end()),
  'a body without end': at('tools/call', (response) => {
    response.writeHead(200, json);
    flood(response, () => response.write(' '.repeat(16_384)));
  }),
  'an event without end': at('tools/call', (response) => {
    response.writeHead(200, events).write('data: ');
    flood(response, () => response.write('x'.repeat(16_384)));
  }),
  'events without end': at('initialize', (response) => {
    response.writeHead(200, events);
    flood(response, () => response.write(`:${'comment'.repeat(100)}\n\nevent: odd\nid: 1\ndata: {}\n\n`));
  }),
  'a cut answer': at('tools/call', (response, exchange) => {
    response.writeHead(200, { ...json, 'content-length': 10_000 }).write(bodyOf(exchange).slice(0, 20));
    setImmediate(() => response.destroy());
  }),
  'a cut event': at('tools/call', (response, exchange) => {
    response.writeHead(200, events).write(`data: ${bodyOf(exchange).slice(0, 20)}`);
    setImmediate(() => response.destroy());
  }),
  'more bytes than it announced': at('tools/call', (response, exchange) => {
    response.strictContentLength = false;
    response.socket?.write(
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\r\n${bodyOf(exchange)}`,
    );
  }),
  'fewer bytes than it announced': at('tools/call', (response, exchange) => {
    response.socket?.write(
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n${bodyOf(exchange)}`,
    );
  }),
  'no HTTP at all': at('tools/call', (response) => response.socket?.write('\u0000\u0001 SSH-2.0 \r\n\r\n')),
  'headers without end': at('tools/call', (response) => {
    const { socket } = response;
    socket?.write('HTTP/1.1 200 OK\r\n');
    if (socket) flood(socket, () => socket.write(`x-more: ${'y'.repeat(1_000)}\r\n`));
  }),
  'a compressed bomb': at('tools/call', (response) => {
    packed ??= bomb();
    response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(packed);
  }),
  'compression that is none': at('tools/call', (response, exchange) =>
    response
      .writeHead(200, { ...json, 'content-encoding': exchange.random.pick(['gzip', 'br', 'zstd', 'x']) })
      .end(bodyOf(exchange)),
  ),
  'another session at every answer': {
    handle: ({ response, message, random, isSse }) => {
      if (isSse || message?.id === undefined) return undefined;
      response.writeHead(200, { ...json, 'mcp-session-id': random.pick([String(random.bits()), 'x'.repeat(8_000)]) });
      response.end(JSON.stringify(answer(message)));
      return 'done';
    },
  },
  'forgets every session': {
    handle: ({ request, response, message, isSse }) => {
      const isFirst = message?.method === 'initialize' || (isSse && request.method === 'GET');
      if (isFirst && !isSse && message)
        response.writeHead(200, { ...json, 'mcp-session-id': 's' }).end(JSON.stringify(answer(message)));
      else if (isFirst) return undefined;
      else
        response
          .writeHead(404, json)
          .end('{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}');
      return 'done';
    },
  },
  'wants to be asked again at once': {
    handle: ({ request, response, message, isSse }) => {
      if (request.method === 'GET') {
        const endpoint = isSse ? `event: endpoint\ndata: ${request.url}\n\n` : '';
        response.writeHead(200, events).end(`retry: 0\nid: 1\n${endpoint}data: \n\n`);
        return 'done';
      }
      if (isSse || message?.id === undefined) return undefined;
      // Streams that close before their answer are resumed, as the protocol has it.
      if (message.method === 'tools/call') response.writeHead(200, events).end('retry: 0\nid: 1\ndata: \n\n');
      else response.writeHead(200, json).end(JSON.stringify(answer(message, honestResult(message))));
      return 'done';
    },
  },
};
