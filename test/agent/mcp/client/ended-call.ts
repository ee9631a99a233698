import { McpCancelledError, McpError } from '../../src/pool/errors.ts';
import type { McpPool } from '../../src/pool/pool.ts';
import type { PoolCall, StartedCall } from '../../src/pool/pool-call.ts';
import type { ToolOutput } from '../../src/pool/tool-result.ts';
import type { McpServerRecord } from '../../src/protocol/record.ts';

/** What the pool makes of a call; the signal cancels it. */
export function ended(
  pool: Pick<McpPool, 'startCall'>,
  record: McpServerRecord,
  call: PoolCall,
  signal?: AbortSignal,
): Promise<ToolOutput> {
  return new Promise((resolve) => {
    const started: StartedCall = pool.startCall(record, { ...call, finished: resolve });
    const reason = () => (signal?.reason instanceof McpError ? signal.reason : cancelled(record));
    signal?.addEventListener('abort', () => started.cancel(reason()), { once: true });
    if (signal?.aborted) started.cancel(reason());
  });
}

const cancelled = ({ server_id: serverId }: McpServerRecord) =>
  new McpCancelledError(serverId, 'the call was cancelled');
