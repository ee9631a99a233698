import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type BindAddress, type BoundAddress, bind, type TlsMaterial } from './bind.ts';
import { type ConnectionLimits, Connections, peerOf } from './connections.ts';

const MAX_HEADER_BYTES = 16 * 1024;
/** From the first byte of a request to the end of its headers, and to its end. */
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_TIMEOUT_MS = 10_000;
/** Idle time after which the kernel probes the peer of a WebSocket, so that a client whose machine is gone keeps no slot. */
const PROBE_AFTER_MS = 30_000;
/** How often a server that ends looks for connections without a request. */
const IDLE_LOOK_MS = 50;
/** Requests on one connection that were sent before the first was answered. Nobody who means well sends a second. */
const MAX_PIPELINED = 4;
/** What is said to a request that never became one. */
const NOT_HTTP = '400 Bad Request';
const refusals: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
};
/** For a server that few call. */
export const fewConnections: ConnectionLimits = Object.freeze({ max: 1_024, maxPerPeer: 512, gate: null });

export interface HttpServer extends BoundAddress {
  /** With scheme. */
  readonly url: string;
  /** New connections get this certificate. Nothing happens to a server without TLS. */
  useTls(tls: TlsMaterial): void;
  /** No new requests; those under way have `graceMs` to end. */
  close(graceMs: number): Promise<void>;
}

export async function startHttpServer(
  address: BindAddress,
  tls: TlsMaterial | null,
  limits: ConnectionLimits,
  listener: (req: IncomingMessage, res: ServerResponse) => void,
  upgrade: ((req: IncomingMessage, socket: Duplex, head: Buffer) => void) | null = null,
): Promise<HttpServer> {
  const options = {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    connectionsCheckingInterval: HEADERS_TIMEOUT_MS / 2,
  };
  const secure = tls === null ? null : createSecureServer({ ...options, ...tls, handshakeTimeout: HEADERS_TIMEOUT_MS });
  const server: Server = secure ?? createServer(options);
  const connections = new Connections(limits);
  connections.guard(server, secure !== null);
  server.on('request', (req: IncomingMessage, res: ServerResponse) => {
    // What was sent together is read together, also behind a request for which the connection was closed.
    if (req.socket.destroyed) return;
    if (connections.callsOn(req.socket) >= MAX_PIPELINED) {
      limits.gate?.offended(peerOf(req.socket));
      limits.onRefused?.();
      req.socket.destroy();
      return;
    }
    const end = connections.busy(req.socket);
    res.once('close', end);
    listener(req, res);
  });
  if (upgrade !== null) {
    server.on('upgrade', (req: IncomingMessage, socket: Duplex, head: Buffer) => {
      req.socket.setKeepAlive(true, PROBE_AFTER_MS);
      socket.once('close', connections.busy(req.socket));
      upgrade(req, socket, head);
    });
  }
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    limits.gate?.mayAsk(peerOf(socket));
    if (socket.writable)
      socket.write(`HTTP/1.1 ${refusals[error.code ?? ''] ?? NOT_HTTP}\r\nconnection: close\r\n\r\n`);
    socket.destroy();
  });
  const bound = await bind(server, address);
  return {
    ...bound,
    url: `${tls === null ? 'http' : 'https'}://${bound.authority}`,
    useTls: (renewed) => secure?.setSecureContext(renewed),
    close(graceMs) {
      return new Promise((resolve) => {
        const timer = setTimeout(() => server.closeAllConnections(), graceMs);
        // A connection whose last answer ends now would stay for as long as it may be silent.
        const idle = setInterval(() => server.closeIdleConnections(), IDLE_LOOK_MS);
        server.close(() => {
          clearTimeout(timer);
          clearInterval(idle);
          resolve();
        });
        server.closeIdleConnections();
      });
    },
  };
}
