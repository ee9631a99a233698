import type { RegistryCache } from '../../registry-client/cache.ts';
import type { McpMetrics } from '../../server/telemetry/mcp-metrics.ts';
import type { McpPool } from './client/pool.ts';

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
