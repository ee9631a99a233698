import { connect, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { privateDirectoryProblem } from '../private-directory.ts';

/** How an address names a socket: `unix:/path/to/http.sock`. */
export const SOCKET_SCHEME = 'unix:';

/**
 * Connects to a socket that only a process of this user can have made: it lies in a directory that nobody else can
 * enter. A port of this machine proves nothing: while its owner is away anybody can listen there.
 */
export function connectLocalSocket(path: string): Socket {
  const problem = privateDirectoryProblem(dirname(path));
  if (problem === null) return connect({ path });
  // HTTP/2 takes a socket that is not connecting for a connected one, so this one fails while it looks for its peer.
  return connect({ host: 'socket.invalid', port: 1, lookup: (_, __, done) => done(new Error(problem), []) });
}
