import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { type BindAddress, type BoundAddress, bind, type TlsMaterial } from '../bind.ts';
import { type ConnectionLimits, Connections } from '../connections.ts';

const MAX_HEADER_BYTES = 16 * 1024;
/** From the first byte of a request to the end of its headers, and to its end. */
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_TIMEOUT_MS = 10_000;
/** For a server that few call. */
export const fewConnections: ConnectionLimits = Object.freeze({ max: 1_024, maxPerPeer: 512 });

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
): Promise<HttpServer> {
  const options = {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    connectionsCheckingInterval: HEADERS_TIMEOUT_MS / 2,
  };
  const secure =
    tls === null ? null : createSecureServer({ ...options, ...tls, handshakeTimeout: HEADERS_TIMEOUT_MS }, listener);
  const server: Server = secure ?? createServer(options, listener);
  const connections = new Connections(limits);
  server.on('connection', (socket) => connections.admit(socket));
  server.on('request', (req: IncomingMessage, res: ServerResponse) => {
    const end = connections.busy(req.socket);
    res.once('close', end);
  });
  const bound = await bind(server, address);
  return {
    ...bound,
    url: `${tls === null ? 'http' : 'https'}://${bound.authority}`,
    useTls: (renewed) => secure?.setSecureContext(renewed),
    close(graceMs) {
      return new Promise((resolve) => {
        const timer = setTimeout(() => server.closeAllConnections(), graceMs);
        server.close(() => {
          clearTimeout(timer);
          resolve();
        });
        server.closeIdleConnections();
      });
    },
  };
}
