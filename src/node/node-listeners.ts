import { chmodSync, lstatSync, mkdirSync, rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { writePrivateFile } from '../base/private-file.ts';
import type { ListenAddress } from '../config/address.ts';
import { type NodeFiles, privateDirectoryProblem } from '../config/directories.ts';
import type { ConnectionLimits } from '../server/http/connections.ts';
import { type HttpServer, startHttpServer, type TlsMaterial } from '../server/http/http-server.ts';

const PRIVATE_DIRECTORY = 0o700;
const PRIVATE_SOCKET = 0o600;

export interface NodeListeners {
  readonly url: string;
  /** New connections get this certificate. */
  useTls(tls: TlsMaterial): void;
  close(graceMs: number): Promise<void>;
}

/** Serves on a port, and for this user on a socket beside the data. Leaves word of where. */
export async function openNodeListeners(
  address: ListenAddress,
  tls: TlsMaterial | null,
  files: NodeFiles,
  limits: ConnectionLimits,
  listener: (req: IncomingMessage, res: ServerResponse) => void,
  upgrade: (req: IncomingMessage, socket: Duplex, head: Buffer) => void,
): Promise<NodeListeners> {
  const open: HttpServer[] = [];
  const close = async (graceMs: number) => {
    rmSync(files.endpoint, { force: true });
    await Promise.all(open.map((server) => server.close(graceMs)));
  };
  try {
    const port = await startHttpServer(address, tls, limits, listener, upgrade);
    open.push(port);
    prepareSocket(files);
    open.push(await startHttpServer({ path: files.socket }, null, limits, listener, upgrade));
    chmodSync(files.socket, PRIVATE_SOCKET);
    writePrivateFile(
      files.endpoint,
      `${JSON.stringify({ http: port.url, http_socket: files.socket, pid: process.pid })}\n`,
    );
    return { url: port.url, useTls: (renewed) => port.useTls(renewed), close };
  } catch (error) {
    await close(0);
    throw error;
  }
}

/** Precondition: this process holds the lock of the data, so no other node listens there. */
function prepareSocket({ sockets, socket }: NodeFiles): void {
  mkdirSync(sockets, { recursive: true, mode: PRIVATE_DIRECTORY });
  const problem = privateDirectoryProblem(sockets);
  if (problem !== null) throw new Error(`local clients need a directory that only this user can access: ${problem}`);
  const found = lstatSync(socket, { throwIfNoEntry: false });
  if (found !== undefined && !found.isSocket()) throw new Error(`${socket} exists and is not a socket; remove it`);
  rmSync(socket, { force: true });
}
