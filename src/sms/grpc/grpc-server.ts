import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2';
import { type BindAddress, type BoundAddress, bind, type TlsMaterial } from '../bind.ts';
import { Connections } from '../connections.ts';

const MAX_HEADER_BYTES = 16 * 1024;
/** Node counts what it holds for one connection, answers on their way included, in MB. */
const MAX_SESSION_MEGABYTES = 256;
const KEEP_ALIVE_MS = 30_000;
const TLS_HANDSHAKE_MS = 10_000;
/** Streams that the peer opens and takes back at once: so many at a time, then so many a second. */
const RESET_BURST = 200;
const RESETS_PER_SECOND = 33;

export interface GrpcServerLimits {
  readonly max_connections: number;
  readonly max_connections_per_peer: number;
  readonly max_calls_per_connection: number;
  readonly idle_connection_ms: number;
}

export interface GrpcServer extends BoundAddress {
  /** New connections get this certificate. Nothing happens to a server without TLS. */
  useTls(tls: TlsMaterial): void;
  /** No new calls; those under way have `graceMs` to end. */
  close(graceMs: number): Promise<void>;
}

/** An HTTP/2 server: with TLS, or in clear text for clients that know beforehand that it speaks HTTP/2. */
export async function startGrpcServer(
  address: BindAddress,
  tls: TlsMaterial | null,
  limits: GrpcServerLimits,
  listener: (req: Http2ServerRequest, res: Http2ServerResponse) => void,
): Promise<GrpcServer> {
  const options = {
    maxSessionMemory: MAX_SESSION_MEGABYTES,
    streamResetBurst: RESET_BURST,
    streamResetRate: RESETS_PER_SECOND,
    settings: { maxConcurrentStreams: limits.max_calls_per_connection, maxHeaderListSize: MAX_HEADER_BYTES },
  };
  const secure =
    tls === null ? null : createSecureServer({ ...options, ...tls, handshakeTimeout: TLS_HANDSHAKE_MS }, listener);
  const server: Http2Server | Http2SecureServer = secure ?? createServer(options, listener);
  const connections = new Connections({ max: limits.max_connections, maxPerPeer: limits.max_connections_per_peer });
  const sessions = new Set<ServerHttp2Session>();
  server.on('session', (session: ServerHttp2Session) => {
    sessions.add(session);
    session.once('close', () => sessions.delete(session));
    watchIdleness(session, connections, limits.idle_connection_ms);
  });
  // A peer that breaks the protocol ends its own connection and nothing else.
  server.on('sessionError', () => {});
  server.on('connection', (socket) => {
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    connections.admit(socket);
  });
  const bound = await bind(server, address);
  return {
    ...bound,
    useTls: (renewed) => secure?.setSecureContext(renewed),
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

function watchIdleness(session: ServerHttp2Session, connections: Connections, idleMs: number): void {
  let streams = 0;
  session.on('stream', (stream) => {
    streams += 1;
    const end = connections.busy(session.socket);
    stream.once('close', () => {
      streams -= 1;
      end();
    });
  });
  session.on('error', () => {});
  session.setTimeout(idleMs, () => {
    if (streams > 0) return;
    session.close();
    // A peer that does not answer to the goodbye is gone all the same.
    session.destroy();
  });
}
