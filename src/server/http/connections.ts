import type { Server, Socket } from 'node:net';
import type { PeerGate } from './peer-gate.ts';

export interface ConnectionLimits {
  readonly max: number;
  readonly maxPerPeer: number;
  /** Null: everybody may come as often as they like. */
  readonly gate: PeerGate | null;
  /** Told of a connection that was refused. @default nobody */
  readonly onRefused?: () => void;
}

interface Connection {
  readonly socket: Socket;
  readonly peer: string;
  calls: number;
  isHandshaking: boolean;
}

/** TLS handshakes of one peer at a time: each holds up everybody else for as long as a signature takes. */
const MAX_HANDSHAKES_PER_PEER = 32;

/** The part of a socket that tells whose it is, also where TLS or HTTP/2 has wrapped it. */
export type PeerSocket = Pick<Socket, 'remoteAddress' | 'remotePort'>;

/** Whose limits a connection counts for. Sockets in the file system have no address, and belong to one user. */
export function peerOf(socket: Pick<Socket, 'remoteAddress'> | undefined): string {
  return socket?.remoteAddress ?? 'local';
}

/**
 * The connections of one listener. One that does nothing has to go when a further one comes and there is no room: idle
 * connections are free for whoever makes them, and must not keep others out.
 */
export class Connections {
  readonly #limits: ConnectionLimits;
  /** Those that were idle for longest come first. */
  readonly #open = new Map<string, Connection>();
  readonly #perPeer = new Map<string, number>();
  readonly #handshakes = new Map<string, number>();

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
    limits.gate?.onCutOff((peer) => this.#cutOff(peer));
  }

  /** Stands before a server that does not listen yet: whoever is refused costs it nothing. */
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

  /** Takes a new connection in, or closes it. */
  #admit(socket: Socket, isHandshaking: boolean): boolean {
    const key = keyOf(socket);
    if (key === null) return true;
    const peer = peerOf(socket);
    const { gate, max, maxPerPeer, onRefused = () => {} } = this.#limits;
    const admitted =
      (gate === null || gate.mayConnect(peer)) &&
      (!isHandshaking || (this.#handshakes.get(peer) ?? 0) < MAX_HANDSHAKES_PER_PEER) &&
      ((this.#perPeer.get(peer) ?? 0) < maxPerPeer || this.#shed(peer)) &&
      (this.#open.size < max || this.#shed(null));
    if (!admitted) {
      onRefused();
      socket.destroy();
      return false;
    }
    this.#open.set(key, { socket, peer, calls: 0, isHandshaking });
    count(this.#perPeer, peer, 1);
    if (isHandshaking) count(this.#handshakes, peer, 1);
    socket.once('close', () => this.#forget(key, socket));
    return true;
  }

  #secured(socket: PeerSocket): void {
    const connection = this.#open.get(keyOf(socket) ?? '');
    if (connection === undefined || !connection.isHandshaking) return;
    connection.isHandshaking = false;
    count(this.#handshakes, connection.peer, -1);
  }

  /** Calls under way on the connection. */
  callsOn(socket: PeerSocket): number {
    return this.#open.get(keyOf(socket) ?? '')?.calls ?? 0;
  }

  /** A call begins on the connection; the returned function ends it. */
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

  #shed(peer: string | null): boolean {
    for (const [key, { socket, calls, peer: its }] of this.#open) {
      if (calls > 0 || (peer !== null && its !== peer)) continue;
      this.#forget(key, socket);
      socket.destroy();
      return true;
    }
    return false;
  }

  #cutOff(peer: string): void {
    for (const [key, { socket, calls, peer: its }] of this.#open) {
      if (calls > 0 || its !== peer) continue;
      this.#forget(key, socket);
      socket.destroy();
    }
  }

  #forget(key: string, socket: Socket): void {
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
