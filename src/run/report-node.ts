import { hostname } from 'node:os';
import type { McpPool } from '../agent/mcp/client/pool.ts';
import { version } from '../base/version.ts';
import type { RegistryStatus } from '../registry-client/kind-cache.ts';
import { NodeReporter } from '../registry-client/node-report.ts';
import type { RunRegistry } from './open-registry.ts';
import { ProcessLoadMeter } from './process-load.ts';
import { ReportedTools } from './reported-tools.ts';

/** Letters that a registry takes. */
const MAX_HOST_CHARS = 64;

/** Tells the registry what this node sees of the servers, while it is open. Null: that registry is told nothing. */
export function reportNode(
  { cache, reports }: RunRegistry,
  pool: McpPool,
  id: string,
  onFailure: (error: Error) => void,
): Pick<NodeReporter, 'changed' | 'close'> | null {
  if (reports === null) return null;
  const tools = new ReportedTools();
  const meter = new ProcessLoadMeter();
  let hasMore = false;
  const reporter = new NodeReporter({
    target: reports,
    answered: (report, { wantedToolLists = [] }) => {
      tools.answered(report.toolLists ?? [], wantedToolLists);
      return hasMore || wantedToolLists.length > 0;
    },
    onFailure: (error) => onFailure(error as Error),
    collect: () => {
      const status = cache.status();
      const listed = tools.collect(pool.listed());
      ({ hasMore } = listed);
      return {
        nodeId: nodeId(id),
        registryState: status.state,
        epoch: status.epoch ?? '',
        snapshotRevision: status.revision ?? 0,
        servers: pool.health().map(({ serverId, state, lastError, toolCount, reconnects, latencyMs }) => {
          const toolsHash = listed.hashes.get(serverId);
          return {
            serverId,
            health: state,
            lastError,
            toolCount,
            reconnects,
            ...(latencyMs === null ? {} : { latencyMs }),
            ...(toolsHash === undefined ? {} : { toolsHash }),
          };
        }),
        version,
        ...(cache.stops === null ? {} : confirmed(cache.stops.status())),
        load: meter.take(pool),
        toolLists: listed.told,
      };
    },
  });
  reporter.start();
  const stops = [
    cache.onStatus(() => reporter.changed()),
    cache.onChange(() => reporter.changed()),
    cache.stops?.onChange(() => reporter.now()),
  ];
  return {
    changed: () => reporter.changed(),
    close: () => {
      for (const stop of stops) stop?.();
      return reporter.close();
    },
  };
}

const confirmed = ({ epoch, revision }: RegistryStatus) => ({ stopsEpoch: epoch ?? '', stopsRevision: revision ?? 0 });

/** Which machine, and what on it. */
export const nodeId = (id: string) =>
  `${hostname()
    .replaceAll(/[^A-Za-z0-9._-]/g, '-')
    .slice(0, MAX_HOST_CHARS)}:${id}`;
