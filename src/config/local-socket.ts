import { connect, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { privateDirectoryProblem } from './directories.ts';

/** Scheme of a socket address: `unix:/path/to/http.sock`. */
export const SOCKET_SCHEME = 'unix:';

/**
 * Connects to a socket that only a process of this user can have created, because only this user can enter its
 * directory. A loopback port gives no such proof: while its owner is down, any local user can listen on it.
 */
export function connectLocalSocket(path: string): Socket {
  const problem = privateDirectoryProblem(dirname(path));
  if (problem === null) return connect({ path });
  // Fails during the lookup: HTTP/2 treats a socket that is not connecting as connected.
  return connect({ host: 'socket.invalid', port: 1, lookup: (_, __, done) => done(new Error(problem), []) });
}
