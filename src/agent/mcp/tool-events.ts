import { Listeners } from '../../base/listeners.ts';
import type { RegistryCache } from '../../registry-client/cache.ts';
import type { CallKind } from '../../runtime/port/policy-layers.ts';
import type { McpMetrics } from '../../server/telemetry/mcp-metrics.ts';
import type { McpPool } from './client/pool.ts';

/** One tool invocation, whoever ran it; a resource that was read and a prompt that was got are told of as well. */
export interface ToolInvocation {
  readonly source: 'native' | 'mcp';
  readonly kind: CallKind;
  readonly run: string;
  /** The chat or MCP session in the run; null outside of any. */
  readonly session: string | null;
  /** null for a native tool. */
  readonly server: string | null;
  /** Of a resource its uri. */
  readonly tool: string;
  readonly callId: string;
  /** `ok`, or the code of the error that the model was told. */
  readonly outcome: string;
  /** Why policy or approvals denied the call, as in the audit log. Absent: they did not. */
  readonly denial?: string;
  readonly durationMs: number;
  /** Of the answer, as the model received it. */
  readonly bytes: number;
}

export type ToolListener = (invocation: ToolInvocation) => void;

/** Who wants to know of tool invocations. */
export class ToolEvents {
  readonly #listeners = new Listeners<ToolInvocation>();

  /** Returns the way to stop it. */
  subscribe(listener: ToolListener): () => void {
    return this.#listeners.add(listener);
  }

  emit(invocation: ToolInvocation): void {
    this.#listeners.notify(invocation);
  }
}

/** Shows a pool, and the registry behind it, to whoever reads the metrics. Returns the way to stop it. */
export function watchMcp(
  metrics: McpMetrics,
  pool: Pick<McpPool, 'stats' | 'health'>,
  registry: Pick<RegistryCache, 'status' | 'snapshot'> | null,
): () => void {
  const forgetPool = metrics.watchPool(() => {
    const { connected, subprocesses, callsInFlight: running, callsQueued: queued } = pool.stats();
    const servers = pool.health().map(({ serverId, state, reconnects }) => ({
      serverId,
      connected: state === 'connected',
      reconnects,
    }));
    return { connected, subprocesses, running, queued, servers };
  });
  const forgetRegistry =
    registry === null
      ? () => {}
      : metrics.watchRegistry(() => {
          const { state, revision, ageMs } = registry.status();
          const degraded = state === 'degraded' || state === 'refused' || state === 'stale';
          return { revision, ageMs, servers: registry.snapshot()?.records.size ?? 0, degraded };
        });
  return () => {
    forgetPool();
    forgetRegistry();
  };
}
