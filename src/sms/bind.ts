import type { Server } from 'node:net';

export interface TlsMaterial {
  readonly cert: string;
  readonly key: string;
}

export interface BoundAddress {
  readonly host: string;
  readonly port: number;
  /** As others write it: `127.0.0.1:5000`, `[::1]:5000`. */
  readonly authority: string;
}

/** Listens; with port 0 the system picks one. */
export function bind(server: Server, address: { readonly host: string; readonly port: number }): Promise<BoundAddress> {
  const { host } = address;
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const reason = error.code === 'EADDRINUSE' ? 'the address is in use' : (error.code ?? error.message);
      reject(new Error(`cannot listen on ${authorityOf(host, address.port)}: ${reason}`));
    });
    server.listen(address.port, host, () => {
      const bound = server.address();
      const port = typeof bound === 'object' && bound !== null ? bound.port : address.port;
      resolve({ host, port, authority: authorityOf(host, port) });
    });
  });
}

export function authorityOf(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
