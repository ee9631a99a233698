import type { ToolErrorCode } from '../../src/agent/mcp/client/errors.ts';
import type { McpPool } from '../../src/agent/mcp/client/pool.ts';
import type { ToolList } from '../../src/agent/mcp/client/tool-list.ts';
import type { ToolOutput } from '../../src/agent/mcp/client/tool-result.ts';
import type { McpServerRecord } from '../../src/server/records/server.ts';
import { chooseCall } from './choose-call.ts';
import { listBySdk } from './list-by-sdk.ts';
import { withServer } from './list-servers.ts';
import type { RealServer } from './real-server.ts';

/** What became of one server. */
export interface TriedServer {
  readonly transport: string;
  readonly protocolVersion: string;
  readonly tools: number;
  /** What the SDK's own client lists of the same server; null: it cannot. */
  readonly bySdk: number | null;
  /** Tools that the SDK's client lists and the pool does not. */
  readonly missing: readonly string[];
  /** An error that the server answers with is an answer. */
  readonly answered: boolean;
  readonly note: string;
}

/** Errors of a call that was sent and that the server said something to. */
const answers: readonly ToolErrorCode[] = ['mcp_tool_error', 'mcp_invalid_arguments', 'mcp_output_too_large'];

/**
 * Connects, lists, calls one tool, ends it.
 * @throws what kept it from being installed, connected or listed
 */
export function tryServer(server: RealServer, signal: AbortSignal): Promise<TriedServer> {
  let protocolVersion = '?';
  return withServer(
    server,
    signal,
    (entry) => {
      if (entry.event === 'connected') protocolVersion = entry.protocolVersion ?? '?';
    },
    async (pool, record, { server: started, folder }) => {
      const list = await pool.listTools(record, { signal });
      const { answered, note } = await callOne(pool, record, list);
      const bare = await listBySdk(started, folder).catch(() => null);
      const ours = new Set(list.tools.map(({ name }) => name));
      const missing = (bare ?? []).filter((name) => !ours.has(name));
      const counts = { tools: ours.size, bySdk: bare?.length ?? null, missing };
      return { transport: record.transport, protocolVersion, ...counts, answered, note };
    },
  );
}

async function callOne(
  pool: McpPool,
  record: McpServerRecord,
  list: ToolList,
): Promise<{ answered: boolean; note: string }> {
  const chosen = chooseCall(list.tools);
  if (chosen === null) return { answered: false, note: list.notice ?? 'no read-only tool to call' };
  let sent = false;
  const { error } = await new Promise<ToolOutput>((resolve) => {
    pool.startCall(record, {
      ...chosen,
      owner: 'peers',
      beforeDispatch: () => {
        sent = true;
      },
      finished: resolve,
    });
  });
  if (error === null) return { answered: true, note: `${chosen.tool}: ok` };
  const answered = sent && answers.includes(error.code);
  // What a server says in an error is its own text: the code is enough.
  return { answered, note: `${chosen.tool}: ${answered ? error.code : `${error.code}, ${error.message}`}` };
}
