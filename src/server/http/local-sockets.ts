import { chmodSync, lstatSync, mkdirSync, rmSync } from 'node:fs';
import { privateDirectoryProblem, type RegistryFiles } from '../../config/directories.ts';

const PRIVATE_DIRECTORY = 0o700;
const PRIVATE_SOCKET = 0o600;

/**
 * Makes room for the sockets of this registry. What is left from one that was killed goes.
 * Precondition: this process holds the lock of the data, so no other registry listens there.
 */
export function prepareSockets({ sockets, grpcSocket, httpSocket }: RegistryFiles): void {
  mkdirSync(sockets, { recursive: true, mode: PRIVATE_DIRECTORY });
  const problem = privateDirectoryProblem(sockets);
  if (problem !== null) throw new Error(`local clients need a directory that only this user can access: ${problem}`);
  for (const path of [grpcSocket, httpSocket]) {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found !== undefined && !found.isSocket()) throw new Error(`${path} exists and is not a socket; remove it`);
    rmSync(path, { force: true });
  }
}

/** The directory keeps others out already; the mode says so to whoever looks at the socket alone. */
export function closeToOthers(path: string): void {
  chmodSync(path, PRIVATE_SOCKET);
}
