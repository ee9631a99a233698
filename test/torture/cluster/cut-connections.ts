import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** What was sent over it goes to `far`, and back. */
interface Pair {
  readonly near: Socket;
  readonly far: Socket;
}

/** Stands between clients and one server, and treats their connections as networks do. */
export class CutConnections {
  /** For clients. */
  readonly address: string;
  readonly #server: Server;
  readonly #pairs: Set<Pair>;
  /** Of connections whose other side is gone. */
  readonly #left = new Set<Socket>();

  private constructor(server: Server, port: number, pairs: Set<Pair>) {
    this.#server = server;
    this.#pairs = pairs;
    this.address = `127.0.0.1:${port}`;
  }

  /** `target`: `HOST:PORT` of the server. */
  static async open(target: string): Promise<CutConnections> {
    const [host = '', port = ''] = target.split(':');
    const pairs = new Set<Pair>();
    const server = createServer((near) => {
      const pair = { near, far: connect(Number(port), host) };
      pairs.add(pair);
      join(pair.near, pair.far, () => pairs.delete(pair));
      join(pair.far, pair.near, () => pairs.delete(pair));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('a TCP server has no port');
    return new CutConnections(server, address.port, pairs);
  }

  /** Every connection is reset on both sides. How many there were. */
  cut(): number {
    return this.#each(({ near, far }) => {
      near.resetAndDestroy();
      far.resetAndDestroy();
    });
  }

  /** One side has lost its connections, and nobody tells the other: what that one says goes nowhere. */
  halfOpen(kept: 'client' | 'server'): number {
    return this.#each(({ near, far }) => {
      const [left, lost] = kept === 'client' ? [near, far] : [far, near];
      left.unpipe();
      lost.removeAllListeners('close');
      lost.resetAndDestroy();
      left.resume();
      this.#left.add(left.once('close', () => this.#left.delete(left)));
    });
  }

  /** Nothing comes through until it is let go on. */
  hold(): () => void {
    const held = [...this.#pairs];
    for (const { near, far } of held) {
      near.unpipe();
      far.unpipe();
      near.pause();
      far.pause();
    }
    return () => {
      for (const { near, far } of held) {
        near.pipe(far);
        far.pipe(near);
      }
    };
  }

  close(): void {
    this.#server.close();
    for (const { near, far } of this.#pairs) {
      near.destroy();
      far.destroy();
    }
    for (const socket of this.#left) socket.destroy();
  }

  #each(treat: (pair: Pair) => void): number {
    const all = [...this.#pairs];
    this.#pairs.clear();
    for (const pair of all) treat(pair);
    return all.length;
  }
}

function join(from: Socket, to: Socket, ended: () => void): void {
  from.on('error', () => {});
  from.on('close', () => {
    to.destroy();
    ended();
  });
  from.pipe(to);
}
