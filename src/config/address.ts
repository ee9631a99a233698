export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

export const DEFAULT_GRPC_ADDRESS = '127.0.0.1:50051';
export const DEFAULT_HTTP_ADDRESS = '127.0.0.1:8080';

// Loaded on demand: most runs need no address, and loading node:net delays every start.
const isIP = (text: string) => process.getBuiltinModule('node:net').isIP(text);
const MAX_PORT = 65_535;
const addressShape = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+)):(\d{1,5})$/i;

/** Parses `HOST:PORT` or `[IPv6]:PORT`; null: neither. Port 0 requests any free port. */
export function parseListenAddress(text: string): ListenAddress | null {
  const [, v6, name, digits] = addressShape.exec(text) ?? [];
  const host = v6 ?? name;
  const port = Number(digits);
  if (host === undefined || !(port <= MAX_PORT) || (v6 !== undefined && isIP(v6) !== 6)) return null;
  return { host, port };
}

/** Whether a URL uses TLS, or stays on this machine. */
export function isSecureUrl({ protocol, hostname }: URL): boolean {
  return protocol === 'https:' || (protocol === 'http:' && isLoopbackHost(hostname.replace(/^\[|\]$/g, '')));
}

/** Whether only processes of this machine can reach the host. Names other than `localhost` count as remote. */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase();
  if (name === 'localhost' || name === '::1') return true;
  return isIP(name) === 4 && name.startsWith('127.');
}
