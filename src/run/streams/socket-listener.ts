import { lstatSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { errorCode } from '../../base/errors.ts';
import { connectByteClient } from './byte-client.ts';
import { HubGate, hasDeparted, type StreamListener } from './stream-listener.ts';

/** Access for the owner only. */
const SOCKET_UMASK = 0o177;
/** More than the one client, so that further clients are rejected by the end of their connection. */
const MAX_CONNECTIONS = 8;

/** @throws Error if another process listens there, or the path is not a socket */
export async function listenOnSocket(path: string, onProblem: (text: string) => void): Promise<StreamListener> {
  const gate = new HubGate();
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => {}); // followed by 'close'
    socket.once('close', () => sockets.delete(socket));
    gate.whenOpen(async (hub) => {
      await hub.evictDeparted();
      const end = (problem: string | null) => {
        socket.destroySoon();
        if (problem !== null) onProblem(`user stream client on ${path}: ${problem}`);
      };
      if (socket.destroyed || connectByteClient(hub, socket, socket, end, () => hasDeparted(socket))) return;
      socket.destroy();
      onProblem(`a second client on ${path} was rejected: only one client may be connected`);
    });
  });
  server.maxConnections = MAX_CONNECTIONS;
  await listen(server, path);
  return {
    address: `unix:${path}`,
    attach: (hub) => gate.open(hub),
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroySoon();
      const timer = setTimeout(() => sockets.forEach((socket) => void socket.destroy()), CLOSE_MS);
      await closed;
      clearTimeout(timer);
    },
  };
}

/** Time for pending writes to clients that do not read. */
const CLOSE_MS = 1_000;

async function listen(server: Server, path: string): Promise<void> {
  try {
    await listenOnce(server, path);
  } catch (error) {
    if (errorCode(error) !== 'EADDRINUSE' || !(await isLeftOver(path))) {
      throw new Error(`cannot listen on ${path}: ${reasonOf(error)}`, { cause: error });
    }
    rmSync(path);
    await listenOnce(server, path);
  }
}

const reasonOf = (error: unknown) =>
  errorCode(error) === 'EADDRINUSE' ? 'the path is in use' : (errorCode(error) ?? String(error));

function listenOnce(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    // The socket is created before this returns, so the mask affects nothing else.
    const before = process.umask(SOCKET_UMASK);
    try {
      server.listen(path, () => {
        server.off('error', reject);
        resolve();
      });
    } finally {
      process.umask(before);
    }
  });
}

/** Whether the socket is left over from a process that crashed. */
function isLeftOver(path: string): Promise<boolean> {
  if (!lstatSync(path).isSocket()) return Promise.resolve(false);
  return new Promise((resolve) => {
    const probe = connect(path);
    probe.once('connect', () => {
      probe.destroy();
      resolve(false);
    });
    probe.once('error', (error) => resolve(errorCode(error) === 'ECONNREFUSED'));
  });
}
