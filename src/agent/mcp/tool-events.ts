import { Listeners } from '../../base/listeners.ts';
import type { RegistryCache } from '../../registry-client/cache.ts';
import type { CallKind } from '../../runtime/port/policy-layers.ts';
import type { McpMetrics } from '../../server/telemetry/mcp-metrics.ts';
import type { McpPool } from './client/pool.ts';

/** One invocation of a tool, by a guest or by its model; reads of resources and prompts are included. */
export interface ToolInvocation {
  readonly source: 'native' | 'mcp';
  readonly kind: CallKind;
  readonly run: string;
  /** The chat or MCP session in the run; null outside of any. */
  readonly session: string | null;
  /** null for a native tool. */
  readonly server: string | null;
  /** For a resource, its URI. */
  readonly tool: string;
  readonly callId: string;
  /** `ok`, or the error code that the model received. */
  readonly outcome: string;
  /** Reason of a denial by policy or approvals, as in the audit log. Absent: not denied. */
  readonly denial?: string;
  readonly durationMs: number;
  /** Size of the result as the model received it. */
  readonly bytes: number;
}

export type ToolListener = (invocation: ToolInvocation) => void;

/** Listeners of tool invocations. */
export class ToolEvents {
  readonly #listeners = new Listeners<ToolInvocation>();

  /** Returns a function that unsubscribes. */
  subscribe(listener: ToolListener): () => void {
    return this.#listeners.add(listener);
  }

  emit(invocation: ToolInvocation): void {
    this.#listeners.notify(invocation);
  }
}

/** Registers a pool and its registry as sources of metrics. Returns a function that unregisters them. */
export function watchMcp(
  metrics: McpMetrics,
  pool: Pick<McpPool, 'stats' | 'health'>,
  registry: Pick<RegistryCache, 'status' | 'snapshot'> | null,
): () => void {
  const unwatchPool = metrics.watchPool(() => {
    const { connected, subprocesses, callsInFlight: running, callsQueued: queued } = pool.stats();
    const servers = pool.health().map(({ serverId, state, reconnects }) => ({
      serverId,
      connected: state === 'connected',
      reconnects,
    }));
    return { connected, subprocesses, running, queued, servers };
  });
  const unwatchRegistry =
    registry === null
      ? () => {}
      : metrics.watchRegistry(() => {
          const { state, revision, ageMs } = registry.status();
          const degraded = state === 'degraded' || state === 'refused' || state === 'stale';
          return { revision, ageMs, servers: registry.snapshot()?.records.size ?? 0, degraded };
        });
  return () => {
    unwatchPool();
    unwatchRegistry();
  };
}
