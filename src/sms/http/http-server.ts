import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { type BoundAddress, bind, type TlsMaterial } from '../bind.ts';

const MAX_CONNECTIONS = 1_024;
const MAX_HEADER_BYTES = 16 * 1024;
/** From the first byte of a request to the end of its headers, and to its end. */
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_TIMEOUT_MS = 10_000;

export interface HttpServer extends BoundAddress {
  /** With scheme. */
  readonly url: string;
  /** No new requests; those under way have `graceMs` to end. */
  close(graceMs: number): Promise<void>;
}

export async function startHttpServer(
  address: { readonly host: string; readonly port: number },
  tls: TlsMaterial | null,
  listener: (req: IncomingMessage, res: ServerResponse) => void,
): Promise<HttpServer> {
  const options = {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    connectionsCheckingInterval: HEADERS_TIMEOUT_MS / 2,
  };
  const server: Server =
    tls === null ? createServer(options, listener) : createSecureServer({ ...options, ...tls }, listener);
  server.maxConnections = MAX_CONNECTIONS;
  const bound = await bind(server, address);
  return {
    ...bound,
    url: `${tls === null ? 'http' : 'https'}://${bound.authority}`,
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
