import type { Waiting } from '../../../base/waiting.ts';
import type { McpServerRecord } from '../../../server/records/record.ts';
import type { CallQueue } from './call-queue.ts';
import type { ServerConnection } from './connection.ts';
import type { Latency } from './latency.ts';
import type { ListCache } from './list-cache.ts';
import type { RawListing } from './list-tools.ts';
import type { StartedCall } from './pool-call.ts';
import type { PoolLimits } from './pool-options.ts';
import type { ToolChecks } from './tool-checks.ts';
import type { CompiledToolList } from './tool-list.ts';

/** What the calls at one server share. */
export interface CallSite {
  readonly record: McpServerRecord;
  readonly queue: CallQueue;
  readonly connection: ServerConnection;
  readonly tools: ListCache<RawListing, CompiledToolList>;
  readonly checks: ToolChecks;
  readonly calls: Set<StartedCall>;
  /** Told of every answer. */
  readonly latency: Latency;
  /** Places for calls in flight, shared by all servers. */
  readonly places: CallQueue;
  readonly limits: PoolLimits;
  readonly waiting: Waiting;
}
