import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2';
import { type BoundAddress, bind, type TlsMaterial } from '../bind.ts';

const MAX_CONNECTIONS = 4_096;
const MAX_STREAMS_PER_CONNECTION = 1_024;
const MAX_HEADER_BYTES = 16 * 1024;
/** Node counts what it holds for one connection, answers on their way included, in MB. */
const MAX_SESSION_MEGABYTES = 256;
/** A connection without a call is closed after this time. */
const IDLE_TIMEOUT_MS = 10 * 60_000;
const KEEP_ALIVE_MS = 30_000;

export interface GrpcServer extends BoundAddress {
  /** No new calls; those under way have `graceMs` to end. */
  close(graceMs: number): Promise<void>;
}

/** An HTTP/2 server: with TLS, or in clear text for clients that know beforehand that it speaks HTTP/2. */
export async function startGrpcServer(
  address: { readonly host: string; readonly port: number },
  tls: TlsMaterial | null,
  listener: (req: Http2ServerRequest, res: Http2ServerResponse) => void,
): Promise<GrpcServer> {
  const options = {
    maxSessionMemory: MAX_SESSION_MEGABYTES,
    settings: { maxConcurrentStreams: MAX_STREAMS_PER_CONNECTION, maxHeaderListSize: MAX_HEADER_BYTES },
  };
  const server: Http2Server | Http2SecureServer =
    tls === null ? createServer(options, listener) : createSecureServer({ ...options, ...tls }, listener);
  server.maxConnections = MAX_CONNECTIONS;
  const sessions = new Set<ServerHttp2Session>();
  server.on('session', (session: ServerHttp2Session) => {
    sessions.add(session);
    session.once('close', () => sessions.delete(session));
    watchIdleness(session);
  });
  // A peer that breaks the protocol ends its own connection and nothing else.
  server.on('sessionError', () => {});
  server.on('connection', (socket) => socket.setKeepAlive(true, KEEP_ALIVE_MS));
  const bound = await bind(server, address);
  return {
    ...bound,
    close(graceMs) {
      return new Promise((resolve) => {
        const timer = setTimeout(() => {
          for (const session of sessions) session.destroy();
        }, graceMs);
        server.close(() => {
          clearTimeout(timer);
          resolve();
        });
        for (const session of sessions) session.close();
      });
    },
  };
}

function watchIdleness(session: ServerHttp2Session): void {
  let streams = 0;
  session.on('stream', (stream) => {
    streams += 1;
    stream.once('close', () => {
      streams -= 1;
    });
  });
  session.on('error', () => {});
  session.setTimeout(IDLE_TIMEOUT_MS, () => {
    if (streams === 0) session.close();
  });
}
