import type { Server } from 'node:net';

export interface TlsMaterial {
  readonly cert: string;
  readonly key: string;
}

export interface BoundAddress {
  readonly host: string;
  readonly port: number;
  /** As others write it: `127.0.0.1:5000`, `[::1]:5000`, or the path of a socket. */
  readonly authority: string;
}

/** A port, or a socket in the file system. */
export type BindAddress = { readonly host: string; readonly port: number } | { readonly path: string };

/** Connections that the system keeps until they are taken; beyond, one that was not let in tries again a second later. */
const BACKLOG = 4_096;

/** Listens; with port 0 the system picks one. */
export function bind(server: Server, address: BindAddress): Promise<BoundAddress> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const reason = error.code === 'EADDRINUSE' ? 'the address is in use' : (error.code ?? error.message);
      const where = 'path' in address ? address.path : authorityOf(address.host, address.port);
      reject(new Error(`cannot listen on ${where}: ${reason}`));
    });
    server.listen({ ...address, backlog: BACKLOG }, () => {
      if ('path' in address) return resolve({ host: 'localhost', port: 0, authority: address.path });
      const bound = server.address();
      const port = typeof bound === 'object' && bound !== null ? bound.port : address.port;
      resolve({ host: address.host, port, authority: authorityOf(address.host, port) });
    });
  });
}

export function authorityOf(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
