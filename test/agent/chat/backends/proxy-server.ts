import { once } from 'node:events';
import { createServer, request as forward, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** A small real proxy: forwards absolute-form requests and tunnels CONNECT, to loopback only. */
export class ProxyServer {
  readonly forwarded: string[] = [];
  readonly tunnelled: string[] = [];
  authorization: string | undefined;
  /** Answers every CONNECT with this status instead of a tunnel. */
  refuseWith: number | undefined;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor() {
    this.#server = createServer((incoming, outgoing) => {
      this.forwarded.push(incoming.url ?? '');
      this.authorization = incoming.headers['proxy-authorization'];
      const { 'proxy-authorization': _, ...headers } = incoming.headers;
      const { port, pathname, search } = new URL(incoming.url ?? '');
      const onward = forward(
        { host: '127.0.0.1', port, path: pathname + search, method: 'POST', headers },
        (answer) => {
          outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(outgoing);
        },
      );
      onward.on('error', () => outgoing.destroy());
      incoming.pipe(onward);
    });
    this.#server.on('connect', (incoming: IncomingMessage, client: Duplex) => this.#tunnel(incoming, client));
    this.#server.on('connection', (socket: Socket) => this.#keep(socket));
  }

  static async start(): Promise<ProxyServer> {
    const proxy = new ProxyServer();
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #tunnel(incoming: IncomingMessage, client: Duplex): void {
    this.tunnelled.push(incoming.url ?? '');
    this.authorization = incoming.headers['proxy-authorization'];
    if (this.refuseWith !== undefined) {
      client.end(`HTTP/1.1 ${this.refuseWith} no\r\n\r\n`);
      return;
    }
    const target = connect(Number(incoming.url?.split(':')[1]), '127.0.0.1', () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n');
      target.pipe(client).pipe(target);
    });
    this.#keep(target);
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => this.#sockets.delete(socket));
  }
}
