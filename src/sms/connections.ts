import type { Socket } from 'node:net';

export interface ConnectionLimits {
  readonly max: number;
  readonly maxPerPeer: number;
}

interface Connection {
  readonly socket: Socket;
  readonly peer: string;
  calls: number;
}

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

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
  }

  get count(): number {
    return this.#open.size;
  }

  /** Takes a new connection in, or closes it. */
  admit(socket: Socket): void {
    const key = keyOf(socket);
    if (key === null) return;
    const peer = peerOf(socket);
    const crowded =
      ((this.#perPeer.get(peer) ?? 0) >= this.#limits.maxPerPeer && !this.#shed(peer)) ||
      (this.#open.size >= this.#limits.max && !this.#shed(null));
    if (crowded) {
      socket.destroy();
      return;
    }
    this.#open.set(key, { socket, peer, calls: 0 });
    this.#perPeer.set(peer, (this.#perPeer.get(peer) ?? 0) + 1);
    socket.once('close', () => this.#forget(key, socket));
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

  #forget(key: string, socket: Socket): void {
    const connection = this.#open.get(key);
    if (connection?.socket !== socket) return;
    this.#open.delete(key);
    const left = (this.#perPeer.get(connection.peer) ?? 1) - 1;
    if (left > 0) this.#perPeer.set(connection.peer, left);
    else this.#perPeer.delete(connection.peer);
  }
}

function keyOf({ remoteAddress, remotePort }: PeerSocket): string | null {
  return remotePort === undefined ? null : `${remoteAddress} ${remotePort}`;
}
