import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { Server as NetServer, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ConnectionLimits, Connections, peerOf } from './connections.ts';

const MAX_HEADER_BYTES = 16 * 1024;
/** Limits from the first byte of a request to the end of its headers, and to the end of its body. */
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_TIMEOUT_MS = 10_000;
/** Idle time before the kernel probes the peer of a WebSocket: a client whose machine is gone must not keep a slot. */
const PROBE_AFTER_MS = 30_000;
/** Interval at which a closing server drops idle connections. */
const IDLE_CHECK_MS = 50;
/** Limit of pipelined requests on one connection. Ordinary clients do not pipeline. */
const MAX_PIPELINED = 4;
const NOT_HTTP = '400 Bad Request';
const refusals: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
};
/** Connection limits of a server with few clients. */
export const fewConnections: ConnectionLimits = Object.freeze({ max: 1_024, maxPerPeer: 512, gate: null });

export interface HttpServer extends BoundAddress {
  /** Base URL with scheme. */
  readonly url: string;
  /** Sets the certificate of new connections. No effect without TLS. */
  useTls(tls: TlsMaterial): void;
  /** Stops accepting requests; requests in flight have `graceMs` to finish. */
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
    // Node parses pipelined requests together, so a request may arrive after its connection was closed.
    if (req.socket.destroyed) return;
    if (connections.callsOn(req.socket) >= MAX_PIPELINED) {
      limits.gate?.block(peerOf(req.socket));
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
    limits.gate?.mayRequest(peerOf(socket));
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
        // A connection whose last response ends during the close would otherwise stay open until its idle timeout.
        const idle = setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MS);
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

export interface TlsMaterial {
  readonly cert: string;
  readonly key: string;
}

export interface BoundAddress {
  readonly host: string;
  readonly port: number;
  /** Address in URL form: `127.0.0.1:5000`, `[::1]:5000`, or the path of a socket. */
  readonly authority: string;
}

/** A TCP address, or the path of a Unix socket. */
export type BindAddress = { readonly host: string; readonly port: number } | { readonly path: string };

/** Accept queue of the kernel. A client beyond it retries its SYN a second later. */
const BACKLOG = 4_096;

/** Binds and listens. Port 0 selects a free port. @throws Error naming the address */
export function bind(server: NetServer, address: BindAddress): Promise<BoundAddress> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const reason = error.code === 'EADDRINUSE' ? 'the address is in use' : (error.code ?? error.message);
      const where = 'path' in address ? address.path : authorityOf(address.host, address.port);
      reject(new Error(`cannot listen on ${where}: ${reason}`));
    });
    server.listen({ ...address, backlog: BACKLOG }, () => {
      if ('path' in address) return resolve({ host: 'localhost', port: 0, authority: address.path });
      const bound = server.address();
      const port = typeof bound === 'object' && bound !== null ? bound.port : address.port;
      resolve({ host: address.host, port, authority: authorityOf(address.host, port) });
    });
  });
}

export function authorityOf(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
