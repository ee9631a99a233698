import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openPool } from '../../src/agent/mcp/client/open-pool.ts';
import type { McpPool } from '../../src/agent/mcp/client/pool.ts';
import type { PoolLog } from '../../src/agent/mcp/client/pool-options.ts';
import { type ToolboxServer, toRecords } from '../../src/agent/mcp/toolbox-server.ts';
import { errorText } from '../../src/base/errors.ts';
import type { McpServerRecord } from '../../src/server/records/server.ts';
import type { RealServer } from './real-server.ts';
import { startServer } from './start-server.ts';

/** A server takes a core while it is installed or starts. */
const AT_ONCE = 2;

/** A pool of its own and an empty folder for one server; both are gone afterwards, and so is the server. */
export async function withServer<T>(
  server: RealServer,
  signal: AbortSignal,
  log: PoolLog,
  use: (pool: McpPool, record: McpServerRecord, started: { server: ToolboxServer; folder: string }) => Promise<T>,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'spear-peer-'));
  let end = async () => {};
  try {
    const started = await startServer(server, folder, signal);
    end = started.end;
    const [record] = toRecords([started.server]);
    const { pool, close } = await openPool({
      references: { mode: 'user_owned', names: [], paths: [], backendKeyNames: [] },
      variables: {},
      egress: { allowHosts: null, allowAddresses: null },
      stdio: null,
      stateDir: join(folder, 'state'),
      log,
    });
    try {
      return await use(pool, record as McpServerRecord, { server: started.server, folder });
    } finally {
      await close();
    }
  } finally {
    await end();
    await rm(folder, { recursive: true, force: true });
  }
}

export type Outcome<T> = { readonly server: RealServer; readonly found: T } | ServerFailure;

export interface ServerFailure {
  readonly server: RealServer;
  readonly problem: string;
}

/** Each in its turn, at most two at a time. One that fails keeps none of the others; once aborted, none is begun. */
export async function forEachServer<T>(
  servers: readonly RealServer[],
  signal: AbortSignal,
  visit: (server: RealServer) => Promise<T>,
): Promise<Outcome<T>[]> {
  const outcomes = new Map<RealServer, Outcome<T>>();
  const waiting = servers.values();
  const work = async () => {
    for (const server of waiting) {
      try {
        signal.throwIfAborted();
        outcomes.set(server, { server, found: await visit(server) });
      } catch (error) {
        outcomes.set(server, { server, problem: errorText(error) });
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return servers.map((server) => outcomes.get(server) as Outcome<T>);
}
