import { writeSync } from 'node:fs';
import type { Duplex } from 'node:stream';
import { errorCode } from '../../base/error-text.ts';

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
