import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2, type Settings } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Random } from '../random.ts';

export interface Target {
  readonly grpcPort: number;
  readonly httpPort: number;
  /** The address that the flood comes from. */
  readonly from: string;
  /** A node's, for what only somebody with a token can do. */
  readonly nodeToken: string;
  /** A caller of a node, and the path of a run of that caller. */
  readonly caller?: { readonly token: string; readonly run: string };
}

const HOST = '127.0.0.1';

/** What floods stand on: connections that come back when they are closed, until it is over. */
export class Ground {
  readonly target: Target;
  readonly random: Random;
  readonly #open = new Set<{ destroy(): void }>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #over = false;
  /** Connections, requests, resets: whatever the flood is made of. */
  done = 0;

  constructor(target: Target, random: Random) {
    this.target = target;
    this.random = random;
  }

  get isOver(): boolean {
    return this.#over;
  }

  /** Holds so many connections; one that was closed is made anew at once. */
  sockets(count: number, port: number, onOpen: (socket: Socket) => void): void {
    for (let index = 0; index < count; index++) this.#socket(port, onOpen);
  }

  /** TLS handshakes, each on a connection of its own that is given up as soon as it stands. */
  handshakes(count: number, port: number): void {
    for (let index = 0; index < count; index++) this.#handshake(port);
  }

  sessions(count: number, onOpen: (session: ClientHttp2Session) => void, settings: Settings = {}): void {
    for (let index = 0; index < count; index++) this.#session(onOpen, settings);
  }

  /** A gRPC call without a body of its own. */
  call(session: ClientHttp2Session, path: string, headers: Readonly<Record<string, string>> = {}): ClientHttp2Stream {
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    stream.on('error', () => {});
    stream.end(Buffer.alloc(5));
    this.done++;
    return stream;
  }

  every(ms: number, work: () => void): void {
    this.#timers.add(setInterval(work, ms));
  }

  end(): void {
    this.#over = true;
    for (const timer of this.#timers) clearInterval(timer);
    for (const open of this.#open) open.destroy();
  }

  #socket(port: number, onOpen: (socket: Socket) => void): void {
    if (this.#over) return;
    const socket = connect({ port, host: HOST, localAddress: this.target.from });
    this.done++;
    this.#keep(socket, () => this.#socket(port, onOpen));
    socket.once('connect', () => onOpen(socket));
  }

  #handshake(port: number): void {
    if (this.#over) return;
    const socket = connect({ port, host: HOST, localAddress: this.target.from });
    this.done++;
    this.#keep(socket, () => this.#handshake(port));
    const secure = connectTls({ socket, rejectUnauthorized: false });
    secure.on('error', () => socket.destroy());
    secure.once('secureConnect', () => socket.destroy());
  }

  #session(onOpen: (session: ClientHttp2Session) => void, settings: Settings): void {
    if (this.#over) return;
    const { grpcPort: port, from: localAddress } = this.target;
    const createConnection = () => connect({ port, host: HOST, localAddress });
    const session = connectHttp2(`http://${HOST}:${port}`, { createConnection, settings });
    this.done++;
    this.#keep(session, () => this.#session(onOpen, settings));
    session.once('connect', () => onOpen(session));
  }

  #keep(open: Socket | ClientHttp2Session, again: () => void): void {
    this.#open.add(open);
    open.on('error', () => {});
    open.once('close', () => {
      this.#open.delete(open);
      setImmediate(again);
    });
  }
}
