import { hostname } from 'node:os';
import type { McpPool } from '../pool/pool.ts';
import { NodeReporter } from '../registry/node-report.ts';
import type { RunRegistry } from './open-registry.ts';

/** Letters that a registry takes. */
const MAX_HOST_CHARS = 64;

/** Tells the registry what this node sees of the servers, while it is open. Null: that registry is told nothing. */
export function reportNode(
  { cache, reports }: RunRegistry,
  pool: McpPool,
  id: string,
  onFailure: (error: Error) => void,
): NodeReporter | null {
  if (reports === null) return null;
  const reporter = new NodeReporter({
    target: reports,
    onFailure: (error) => onFailure(error as Error),
    collect: () => {
      const status = cache.status();
      return {
        nodeId: nodeId(id),
        registryState: status.state,
        epoch: status.epoch ?? '',
        snapshotRevision: status.revision ?? 0,
        servers: pool.health().map(({ serverId, state, lastError, toolCount, reconnects }) => ({
          serverId,
          health: state,
          lastError,
          toolCount,
          reconnects,
        })),
      };
    },
  });
  reporter.start();
  cache.onStatus(() => reporter.changed());
  cache.onChange(() => reporter.changed());
  return reporter;
}

/** Which machine, and what on it. */
const nodeId = (id: string) =>
  `${hostname()
    .replaceAll(/[^A-Za-z0-9._-]/g, '-')
    .slice(0, MAX_HOST_CHARS)}:${id}`;
