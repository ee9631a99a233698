export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

export const DEFAULT_GRPC_ADDRESS = '127.0.0.1:50051';
export const DEFAULT_HTTP_ADDRESS = '127.0.0.1:8080';

// Loading node:net takes longer than a short run has: most runs need no address.
const isIP = (text: string) => process.getBuiltinModule('node:net').isIP(text);
const MAX_PORT = 65_535;
const addressShape = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+)):(\d{1,5})$/i;

/** `HOST:PORT` or `[IPv6]:PORT`; null where it is neither. Port 0: any free one. */
export function parseListenAddress(text: string): ListenAddress | null {
  const [, v6, name, digits] = addressShape.exec(text) ?? [];
  const host = v6 ?? name;
  const port = Number(digits);
  if (host === undefined || !(port <= MAX_PORT) || (v6 !== undefined && isIP(v6) !== 6)) return null;
  return { host, port };
}

/** Whether only programs of this machine can reach the host. A name other than localhost may be anything. */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase();
  if (name === 'localhost' || name === '::1') return true;
  return isIP(name) === 4 && name.startsWith('127.');
}
