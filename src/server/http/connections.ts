/**
 * Connection table of one listener: limits connections in total and per peer, TLS handshakes in flight, and finds idle
 * connections to close. An idle connection is closed when a new one needs its slot: idle connections cost a client
 * nothing, so they must not keep other clients out. Unix sockets have no address, belong to one user, and are not counted.
 */
import type { Server, Socket } from 'node:net';
import type { PeerGate } from './peer-gate.ts';

export interface ConnectionLimits {
  readonly max: number;
  readonly maxPerPeer: number;
  /** Null: no rate limit. */
  readonly gate: PeerGate | null;
  /** Called for each rejected connection. */
  readonly onRefused?: () => void;
}

interface Connection {
  readonly socket: Socket;
  readonly peer: string;
  calls: number;
  isHandshaking: boolean;
}

/** Concurrent TLS handshakes per peer: each blocks the event loop for one signature. */
const MAX_HANDSHAKES_PER_PEER = 32;

/** The address of a socket, also when TLS or HTTP/2 wraps it. */
export type PeerSocket = Pick<Socket, 'remoteAddress' | 'remotePort'>;

/** Key under which the limits count a connection. */
export function peerOf(socket: Pick<Socket, 'remoteAddress'> | undefined): string {
  return socket?.remoteAddress ?? 'local';
}

export class Connections {
  readonly #limits: ConnectionLimits;
  /** Ordered by idle time, longest first. */
  readonly #open = new Map<string, Connection>();
  readonly #perPeer = new Map<string, number>();
  readonly #handshakes = new Map<string, number>();

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
    limits.gate?.onBlock((peer) => this.#closeIdle(peer, Number.POSITIVE_INFINITY));
  }

  /** Wraps the connection listeners of a server that does not listen yet, so that a rejected connection costs nothing. */
  guard(server: Server, isSecure: boolean): void {
    const serve = server.listeners('connection');
    server.removeAllListeners('connection');
    server.on('connection', (socket: Socket) => {
      if (!this.#admit(socket, isSecure)) return;
      for (const listener of serve) listener.call(server, socket);
    });
    if (isSecure) server.on('secureConnection', (socket: PeerSocket) => this.#secured(socket));
  }

  get count(): number {
    return this.#open.size;
  }

  /** Registers a new connection, or destroys it and returns false. */
  #admit(socket: Socket, isHandshaking: boolean): boolean {
    const key = keyOf(socket);
    if (key === null) return true;
    const peer = peerOf(socket);
    const { gate, max, maxPerPeer, onRefused = () => {} } = this.#limits;
    const admitted =
      (gate === null || gate.mayConnect(peer)) &&
      (!isHandshaking || (this.#handshakes.get(peer) ?? 0) < MAX_HANDSHAKES_PER_PEER) &&
      ((this.#perPeer.get(peer) ?? 0) < maxPerPeer || this.#closeIdle(peer, 1) > 0) &&
      (this.#open.size < max || this.#closeIdle(null, 1) > 0);
    if (!admitted) {
      onRefused();
      socket.destroy();
      return false;
    }
    this.#open.set(key, { socket, peer, calls: 0, isHandshaking });
    count(this.#perPeer, peer, 1);
    if (isHandshaking) count(this.#handshakes, peer, 1);
    socket.once('close', () => this.#remove(key, socket));
    return true;
  }

  #secured(socket: PeerSocket): void {
    const connection = this.#open.get(keyOf(socket) ?? '');
    if (connection === undefined || !connection.isHandshaking) return;
    connection.isHandshaking = false;
    count(this.#handshakes, connection.peer, -1);
  }

  /** Calls in flight on the connection. */
  callsOn(socket: PeerSocket): number {
    return this.#open.get(keyOf(socket) ?? '')?.calls ?? 0;
  }

  /** Marks a call as begun on the connection; the returned function ends it. */
  busy(socket: PeerSocket): () => void {
    const key = keyOf(socket);
    const connection = key === null ? undefined : this.#open.get(key);
    if (key === null || connection === undefined) return () => {};
    connection.calls += 1;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      connection.calls -= 1;
      if (connection.calls > 0 || this.#open.get(key) !== connection) return;
      this.#open.delete(key);
      this.#open.set(key, connection);
    };
  }

  /** Closes connections without calls, of one peer or of all, those idle for longest first. Returns how many. */
  #closeIdle(peer: string | null, max: number): number {
    let closed = 0;
    for (const [key, connection] of this.#open) {
      if (closed >= max) break;
      if (connection.calls > 0 || (peer !== null && connection.peer !== peer)) continue;
      this.#remove(key, connection.socket);
      connection.socket.destroy();
      closed += 1;
    }
    return closed;
  }

  #remove(key: string, socket: Socket): void {
    const connection = this.#open.get(key);
    if (connection?.socket !== socket) return;
    this.#open.delete(key);
    count(this.#perPeer, connection.peer, -1);
    if (connection.isHandshaking) count(this.#handshakes, connection.peer, -1);
  }
}

function count(counts: Map<string, number>, peer: string, step: 1 | -1): void {
  const now = (counts.get(peer) ?? 0) + step;
  if (now > 0) counts.set(peer, now);
  else counts.delete(peer);
}

function keyOf({ remoteAddress, remotePort }: PeerSocket): string | null {
  return remotePort === undefined ? null : `${remoteAddress} ${remotePort}`;
}
