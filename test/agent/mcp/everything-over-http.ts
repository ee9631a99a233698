import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { httpRecord, npmServer, startHttp } from './client/pool-samples.ts';

const TRIES = 5;
const modes = {
  streamable_http: { argument: 'streamableHttp', path: '/mcp' },
  http_sse_legacy: { argument: 'sse', path: '/sse' },
} as const;

/** server-everything in a process of its own. It cannot choose a port itself, so somebody may be faster than it. */
export async function everythingOverHttp(id: string, transport: keyof typeof modes): Promise<McpServerRecord> {
  const { argument, path } = modes[transport];
  for (let attempt = 1; ; attempt++) {
    const env = { PORT: String(await freePort()), PATH: process.env.PATH ?? '' };
    try {
      await startHttp(npmServer('everything'), [argument], env);
      return httpRecord(id, transport, `http://127.0.0.1:${env.PORT}${path}`);
    } catch (error) {
      if (attempt === TRIES) throw error;
    }
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
