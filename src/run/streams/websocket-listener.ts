import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { type WebSocket, WebSocketServer } from 'ws';
import { errorCode } from '../../base/errors.ts';
import { FRAME_BYTES } from '../../runtime/abi/calls.ts';
import type { StreamEnd } from './stream-client.ts';
import { HubGate, hasDeparted, type StreamListener } from './stream-listener.ts';

export const STREAM_PROTOCOL = 'spear.stream.v1';

const TOKEN_BYTES = 16;
const MAX_CONNECTIONS = 16;
/** Deadlines of the handshake and of the close handshake. */
const HANDSHAKE_MS = 5_000;
const CLOSE_MS = 1_000;
/** Interval of the check for the reset of a peer that may have left. */
const RESET_POLL_MS = 20;
/** Close codes of RFC 6455. */
const NORMAL = 1000;
const NOT_BINARY = 1003;
const POLICY = 1008;
const MAX_REASON_BYTES = 123;

/** Listens for clients on this machine that have the token of the address. @throws Error if it cannot listen there */
export async function listenForWebSockets(
  { host, port }: { readonly host: string; readonly port: number },
  onProblem: (text: string) => void,
): Promise<StreamListener> {
  const token = randomBytes(TOKEN_BYTES).toString('hex');
  const gate = new HubGate();
  const said = new Set<string>();
  const reject = (socket: Duplex, { status, reason }: Refusal) => {
    // Once for each reason, so that repeated attempts do not flood the terminal.
    if (!said.has(reason)) onProblem(`a user stream client was rejected: ${reason}`);
    said.add(reason);
    const body = `${reason}\n`;
    const head = `HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: ${body.length}`;
    socket.end(`${head}\r\n\r\n${body}`);
  };
  const sockets = new WebSocketServer({ noServer: true, maxPayload: FRAME_BYTES, perMessageDeflate: false });
  const server = createServer({ headersTimeout: HANDSHAKE_MS, requestTimeout: HANDSHAKE_MS }, (_request, response) => {
    response.writeHead(426, { 'content-type': 'text/plain', upgrade: 'websocket' });
    response.end(`connect with a WebSocket and the subprotocol ${STREAM_PROTOCOL}\n`);
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => {});
    const refused = refusal(request, token);
    if (refused !== null) return reject(socket, refused);
    gate.whenOpen(async (hub) => {
      await hub.evictDeparted();
      if (hub.isTaken) return reject(socket, TAKEN);
      sockets.handleUpgrade(request, socket, head, (client) => serveStreamSocket(hub, client, socket, onProblem));
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new Error(`cannot listen on ws://${host}:${port}: ${reasonOf(error)}`)));
    server.listen(port, host, resolve);
  });
  const bound = server.address() as { readonly port: number };
  const name = host.includes(':') ? `[${host}]` : host;
  return {
    address: `ws://${name}:${bound.port}/?token=${token}`,
    attach: (hub) => gate.open(hub),
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const client of sockets.clients) closeClient(client, NORMAL, '');
      server.closeIdleConnections();
      await closed;
    },
  };
}

const reasonOf = (error: Error) => (errorCode(error) === 'EADDRINUSE' ? 'the port is in use' : error.message);

interface Refusal {
  readonly status: string;
  /** ASCII. Contains nothing that the client sent. */
  readonly reason: string;
}

const TAKEN: Refusal = { status: '409 Conflict', reason: 'another client is connected' };
const NOT_HERE: Refusal = { status: '404 Not Found', reason: 'the URL path is not /' };
const NO_TOKEN: Refusal = { status: '401 Unauthorized', reason: 'the token in the URL is missing or wrong' };
const NO_PROTOCOL: Refusal = {
  status: '400 Bad Request',
  reason: `the client does not offer the subprotocol ${STREAM_PROTOCOL}`,
};

/** Why a client is rejected; null: admitted. */
function refusal(request: IncomingMessage, token: string): Refusal | null {
  const url = URL.parse(request.url ?? '', 'ws://localhost');
  if (url === null || url.pathname !== '/') return NOT_HERE;
  if (!isSame(url.searchParams.get('token') ?? '', token)) return NO_TOKEN;
  const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
  return offered.includes(STREAM_PROTOCOL) ? null : NO_PROTOCOL;
}

/** Compares hashes, so that the time reveals neither content nor length. */
const isSame = (given: string, expected: string) => timingSafeEqual(sha256(given), sha256(expected));
const sha256 = (text: string) => createHash('sha256').update(text).digest();

/** Connects a WebSocket to a guest: one frame per binary message. `socket` is the underlying connection. */
export function serveStreamSocket(
  hub: StreamEnd,
  client: WebSocket,
  socket: Duplex,
  onProblem: (text: string) => void,
): void {
  let isLeaving = false;
  const session = hub.connect({
    send: (frame, taken) => client.send(frame, () => taken()),
    pause() {
      if (!isLeaving) client.pause();
    },
    resume: () => client.resume(),
    async check(signal) {
      // The machine of a client that has closed its connection answers the ping with a reset. The pong of a connected
      // client is behind the frames that are not read, so only the absence of a reset shows that the client is there.
      if (!hasDeparted(socket) && client.bufferedAmount === 0) client.ping();
      while (!hasDeparted(socket)) await delay(RESET_POLL_MS, undefined, { signal });
      isLeaving = true; // the rest is bounded by the buffer of the socket
      client.resume();
      if (client.readyState !== client.CLOSED) await once(client, 'close', { signal });
    },
    close(problem) {
      if (problem !== null) onProblem(`user stream client: ${problem}`);
      closeClient(client, problem === null ? NORMAL : POLICY, problem ?? '');
    },
  });
  if (session === null) {
    closeClient(client, POLICY, TAKEN.reason);
    return;
  }
  client.on('message', (data: Buffer, isBinary: boolean) => {
    if (isBinary) session.receive(new Uint8Array(data));
    else {
      closeClient(client, NOT_BINARY, 'frames must be binary messages');
      session.gone();
    }
  });
  client.once('error', (error) => onProblem(`user stream client: ${error.message}`));
  client.once('close', () => session.gone());
}

function closeClient(client: WebSocket, code: number, reason: string): void {
  client.resume(); // otherwise its close frame would not be read
  client.close(code, Buffer.from(reason).subarray(0, MAX_REASON_BYTES).toString());
  setTimeout(() => client.terminate(), CLOSE_MS).unref();
}
