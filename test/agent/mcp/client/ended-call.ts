import { McpCancelledError, McpError } from '../../../../src/agent/mcp/client/errors.ts';
import type { McpPool } from '../../../../src/agent/mcp/client/pool.ts';
import type { CallHandle, PoolCall } from '../../../../src/agent/mcp/client/server-call.ts';
import type { ToolOutput } from '../../../../src/agent/mcp/client/tool-result.ts';
import type { McpServerRecord } from '../../../../src/server/records/server.ts';

/** What the pool makes of a call; the signal cancels it. */
export function ended(
  pool: Pick<McpPool, 'startCall'>,
  record: McpServerRecord,
  call: Omit<PoolCall, 'finished'>,
  signal?: AbortSignal,
): Promise<ToolOutput> {
  return new Promise((resolve) => {
    const started: CallHandle = pool.startCall(record, { ...call, finished: resolve });
    const reason = () => (signal?.reason instanceof McpError ? signal.reason : cancelled(record));
    signal?.addEventListener('abort', () => started.cancel(reason()), { once: true });
    if (signal?.aborted) started.cancel(reason());
  });
}

const cancelled = ({ server_id: serverId }: McpServerRecord) =>
  new McpCancelledError(serverId, 'the call was cancelled');
