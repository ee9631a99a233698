import { ConfigError } from '../../config/config-error.ts';

/** Where the client of a run's user streams is. */
export type StreamAddress =
  | { readonly kind: 'stdio' }
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'ws'; readonly host: string; readonly port: number };

const UNIX = 'unix:';
/** A Unix socket's address is a C string in a structure of this size. */
const MAX_SOCKET_PATH_BYTES = 107;
const LOOPBACK = new Set(['127.0.0.1', '[::1]', 'localhost']);
const EXPECTED = 'expected stdio, unix:PATH or ws://127.0.0.1:PORT';

/** @throws ConfigError, which `label` begins */
export function parseStreamAddress(text: string, label: string): StreamAddress {
  if (text === 'stdio') return { kind: 'stdio' };
  if (text.startsWith(UNIX)) return unixAddress(text.slice(UNIX.length), label);
  if (text.startsWith('ws://')) return webSocketAddress(text, label);
  throw new ConfigError(`${label}: ${EXPECTED}, found ${JSON.stringify(text)}`);
}

function unixAddress(path: string, label: string): StreamAddress {
  if (path === '') throw new ConfigError(`${label}: expected a path after unix:`);
  const bytes = Buffer.byteLength(path);
  if (bytes > MAX_SOCKET_PATH_BYTES) {
    throw new ConfigError(`${label}: a socket path has at most ${MAX_SOCKET_PATH_BYTES} bytes, found ${bytes}`);
  }
  return { kind: 'unix', path };
}

function webSocketAddress(text: string, label: string): StreamAddress {
  const url = URL.parse(text);
  if (url === null || url.pathname !== '/' || url.search !== '' || url.username !== '' || url.hash !== '') {
    throw new ConfigError(`${label}: ${EXPECTED}, found ${JSON.stringify(text)}`);
  }
  if (!LOOPBACK.has(url.hostname)) {
    throw new ConfigError(`${label}: only a loopback address is allowed without TLS: ws://127.0.0.1:PORT`);
  }
  if (url.port === '') throw new ConfigError(`${label}: the port is missing; 0 selects a free one`);
  const host = url.hostname === 'localhost' ? '127.0.0.1' : url.hostname.replaceAll(/[[\]]/g, '');
  return { kind: 'ws', host, port: Number(url.port) };
}
