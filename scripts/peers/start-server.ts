import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { ToolboxServer } from '../../src/agent/mcp/toolbox-server.ts';
import { installServer } from './install-server.ts';
import { FOLDER, PORT, type RealServer } from './real-server.ts';

const CONNECT_TIMEOUT_MS = 60_000;
const CALL_TIMEOUT_MS = 20_000;
const POLL_MS = 50;
const PATH = '/usr/local/bin:/usr/bin:/bin';

/** A server that can be connected to, and the way to end what was started for it. */
export interface StartedServer {
  readonly server: ToolboxServer;
  end(): Promise<void>;
}

/** Installs it; one that is spoken to over HTTP is started, and listens. */
export async function startServer(real: RealServer, folder: string, signal: AbortSignal): Promise<StartedServer> {
  const { command, args } = await installServer(real, signal);
  const port = real.http === undefined ? 0 : await freePort();
  const filled = (text: string) => text.replaceAll(FOLDER, folder).replaceAll(PORT, String(port));
  const env = Object.fromEntries(Object.entries(real.env ?? {}).map(([name, value]) => [name, filled(value)]));
  const all = [...args, ...(real.args ?? []).map(filled)];
  const limits = { name: real.id, connectTimeoutMs: CONNECT_TIMEOUT_MS, timeoutMs: CALL_TIMEOUT_MS };
  if (real.http === undefined) {
    const transport = { kind: 'stdio', command, args: all, cwd: folder } as const;
    return { server: { ...limits, transport, env }, end: async () => {} };
  }
  const child = spawn(command, all, {
    cwd: folder,
    env: { PATH, HOME: folder, ...env },
    stdio: 'ignore',
    detached: true,
  });
  const exited = once(child, 'exit');
  const end = async () => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    process.kill(-child.pid, 'SIGKILL');
    await exited;
  };
  try {
    await Promise.race([
      listens(port, signal),
      exited.then(([code]) => Promise.reject(new Error(`the server exited with ${code} before it listened`))),
    ]);
  } catch (error) {
    await end();
    throw error;
  }
  const { kind, path } = real.http;
  return { server: { ...limits, transport: { kind, url: `http://127.0.0.1:${port}${path}` } }, end };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function listens(port: number, signal: AbortSignal): Promise<void> {
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(CONNECT_TIMEOUT_MS)]);
  for (;;) {
    const socket = connect({ port, host: '127.0.0.1' });
    const connected = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (connected) return;
    await delay(POLL_MS, undefined, { signal: deadline });
  }
}
