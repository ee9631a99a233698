import { writeSync } from 'node:fs';
import type { Duplex } from 'node:stream';
import { errorCode } from '../../base/errors.ts';
import { ConfigError } from '../../config/config-error.ts';
import type { StreamEnd } from './stream-client.ts';

/** Source of clients of user streams, for one run after the other. */
export interface StreamListener {
  /** Address for clients, including the token; null: no address. */
  readonly address: string | null;
  /** Connects clients to this guest from now on, including waiting ones. */
  attach(hub: StreamEnd): void;
  close(): Promise<void>;
}

/** Must not reject. */
type Enter = (hub: StreamEnd) => Promise<void>;

/** Queues clients that connect before their guest has started. */
export class HubGate {
  #hub: StreamEnd | null = null;
  #waiting: Enter[] = [];

  open(hub: StreamEnd): void {
    this.#hub = hub;
    for (const enter of this.#waiting.splice(0)) void enter(hub);
  }

  /** The queue is bounded by the connection limit of the listener. */
  whenOpen(enter: Enter): void {
    if (this.#hub === null) this.#waiting.push(enter);
    else void enter(this.#hub);
  }
}

const NOTHING = new Uint8Array(0);

/** A socket of Node. Its handle is not part of the public API; without a handle no departure is detected. */
type WithHandle = Duplex & { readonly _handle?: { readonly fd?: number } | null };

/**
 * Whether the peer of a socket is known to have closed the connection, also while the host does not read from the
 * socket. The check writes no bytes to the descriptor: the kernel rejects that write after the peer has closed, and not
 * if the peer has only closed its sending side. The write bypasses the stream on purpose: a stream destroys itself after
 * a failed write, and with it the data that the peer sent before it left.
 */
export function hasDeparted(socket: Duplex): boolean {
  if (socket.destroyed) return true;
  const fd = (socket as WithHandle)._handle?.fd ?? -1;
  if (fd < 0) return false;
  try {
    writeSync(fd, NOTHING);
    return false;
  } catch (error) {
    return errorCode(error) !== 'EAGAIN';
  }
}

/** Address of the client of the user streams of a run. */
export type StreamAddress =
  | { readonly kind: 'stdio' }
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'ws'; readonly host: string; readonly port: number };

const UNIX = 'unix:';
/** Size of the path in the address structure of a Unix socket. */
const MAX_SOCKET_PATH_BYTES = 107;
const LOOPBACK = new Set(['127.0.0.1', '[::1]', 'localhost']);
const EXPECTED = 'expected stdio, unix:PATH or ws://127.0.0.1:PORT';

/** @throws ConfigError that starts with `label` */
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
