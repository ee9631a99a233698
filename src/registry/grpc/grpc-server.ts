import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2';
import { type ConnectionLimits, Connections, peerOf } from '../../server/http/connections.ts';
import { type BindAddress, type BoundAddress, bind, type TlsMaterial } from '../../server/http/http-server.ts';

const MAX_HEADER_BYTES = 16 * 1024;
/** Node counts what it holds for one connection, answers on their way included, in MB. */
const MAX_SESSION_MEGABYTES = 256;
const KEEP_ALIVE_MS = 30_000;
const TLS_HANDSHAKE_MS = 10_000;
/** Streams that the peer opens and takes back at once: so many at a time, then so many a second. */
const RESET_BURST = 200;
const RESETS_PER_SECOND = 33;

export interface GrpcServerLimits extends ConnectionLimits {
  readonly maxCallsPerConnection: number;
  readonly idleMs: number;
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
    settings: { maxConcurrentStreams: limits.maxCallsPerConnection, maxHeaderListSize: MAX_HEADER_BYTES },
  };
  const secure =
    tls === null ? null : createSecureServer({ ...options, ...tls, handshakeTimeout: TLS_HANDSHAKE_MS }, listener);
  const server: Http2Server | Http2SecureServer = secure ?? createServer(options, listener);
  const connections = new Connections(limits);
  connections.guard(server, secure !== null);
  const sessions = new Set<ServerHttp2Session>();
  server.on('session', (session: ServerHttp2Session) => {
    sessions.add(session);
    session.once('close', () => sessions.delete(session));
    watch(session, connections, limits);
  });
  // A peer that breaks the protocol ends its own connection and nothing else.
  server.on('sessionError', () => {});
  server.on('connection', (socket) => {
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
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

function watch(session: ServerHttp2Session, connections: Connections, { gate, idleMs }: GrpcServerLimits): void {
  const peer = peerOf(session.socket);
  let streams = 0;
  session.on('stream', (stream) => {
    streams += 1;
    const end = connections.busy(session.socket);
    stream.once('close', () => {
      streams -= 1;
      end();
    });
  });
  session.on('error', () => gate?.mayRequest(peer));
  session.setTimeout(idleMs, () => {
    if (streams > 0) return;
    session.close();
    // A peer that does not answer to the goodbye is gone all the same.
    session.destroy();
  });
}

export interface CallLimitsOptions {
  readonly max: number;
  readonly maxPerPeer: number;
  readonly maxAnonymous: number;
  readonly maxAnonymousPerPeer: number;
  /** Asked before every anonymous call. */
  readonly mayRequest: (peer: string) => boolean;
}

/** `flooding`: the peer begins calls faster than anybody who means well. */
export type CallRefusal = 'too_many' | 'flooding';

interface Peer {
  calls: number;
  anonymous: number;
}

/** Counts calls in flight: in total, per peer, and of unauthenticated callers. */
export class CallLimits {
  readonly #options: CallLimitsOptions;
  readonly #peers = new Map<string, Peer>();
  #calls = 0;
  #anonymous = 0;

  constructor(options: CallLimitsOptions) {
    this.#options = options;
  }

  /** The way to say that the call has ended, or why it must not begin. */
  begin(peerName: string, isAnonymous: boolean): (() => void) | CallRefusal {
    const { max, maxPerPeer, maxAnonymous, maxAnonymousPerPeer, mayRequest } = this.#options;
    if (isAnonymous && !mayRequest(peerName)) return 'flooding';
    const peer = this.#peers.get(peerName) ?? { calls: 0, anonymous: 0 };
    const full = this.#calls >= max || peer.calls >= maxPerPeer;
    const crowded = isAnonymous && (this.#anonymous >= maxAnonymous || peer.anonymous >= maxAnonymousPerPeer);
    if (full || crowded) return 'too_many';
    const weight = isAnonymous ? 1 : 0;
    this.#peers.set(peerName, peer);
    this.#count(peer, 1, weight);
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#count(peer, -1, -weight);
      if (peer.calls === 0) this.#peers.delete(peerName);
    };
  }

  #count(peer: Peer, calls: number, anonymous: number): void {
    this.#calls += calls;
    this.#anonymous += anonymous;
    peer.calls += calls;
    peer.anonymous += anonymous;
  }
}
