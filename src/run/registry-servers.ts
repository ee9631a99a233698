import { type OpenPool, openPool } from '../agent/mcp/client/open-pool.ts';
import type { PoolOfRun } from '../agent/mcp/client/pool.ts';
import type { PoolLogEntry, PoolOptions } from '../agent/mcp/client/pool-options.ts';
import { watchMcp } from '../agent/mcp/tool-events.ts';
import type { Waiting } from '../base/listeners.ts';
import type { StdioPolicy } from '../config/host/host-config.ts';
import type { RegistryChange } from '../registry-client/snapshot.ts';
import type { EgressOptions } from '../server/egress/egress.ts';
import type { Metrics } from '../server/telemetry/metrics.ts';
import type { RunRegistry } from './open-registry.ts';
import { reportNode } from './report-node.ts';

/** Log entry about MCP servers or their registry. */
export type McpLogEntry =
  | PoolLogEntry
  | {
      readonly level: 'info';
      readonly event: 'report_failed';
      readonly serverId: null;
      readonly message: string;
    };

/** Events after which the node reports its state to the registry. */
const healthEvents: ReadonlySet<McpLogEntry['event']> = new Set([
  'connected',
  'connect_failed',
  'connection_lost',
  'idle_closed',
  'tools_listed',
  'list_failed',
]);

/** As in `McpOptions`. */
export interface RegistryServersOptions {
  readonly egress?: EgressOptions | undefined;
  readonly stdio?: StdioPolicy | null | undefined;
  /** State of servers that all tasks share. */
  readonly stateDir?: string | undefined;
  readonly limits?: NonNullable<PoolOptions['limits']>;
  readonly log?: ((entry: McpLogEntry) => void) | undefined;
  readonly metrics?: Metrics | null | undefined;
  readonly waiting?: Waiting | undefined;
}

/**
 * Connections to the servers of a registry: one pool for all tasks of this process, which follows the registry and reports
 * the state of the servers to it. The records decide which connections tasks share.
 */
export class RegistryServers {
  readonly registry: RunRegistry;
  readonly #pool: OpenPool;
  readonly #report: () => void;
  readonly #release: () => Promise<void>;
  /** Reference counts of tasks: their revisions share connections. */
  readonly #tasks = new Map<string, number>();
  readonly #beforeChange = new Set<(change: RegistryChange) => void>();

  private constructor(registry: RunRegistry, pool: OpenPool, report: () => void, release: () => Promise<void>) {
    this.registry = registry;
    this.#pool = pool;
    this.#report = report;
    const unsubscribe = registry.cache.onChange((change) => {
      for (const listener of this.#beforeChange) listener(change);
      pool.pool.applyChange(change);
    });
    this.#release = async () => {
      await release();
      await pool.close();
      unsubscribe();
    };
  }

  /** `id` names this node to the registry, which stays open when this is closed. */
  static async open(options: RegistryServersOptions, registry: RunRegistry, id: string): Promise<RegistryServers> {
    const metrics = options.metrics?.mcp;
    let changed = () => {};
    const log = (entry: McpLogEntry) => {
      metrics?.poolEvent(entry);
      if (healthEvents.has(entry.event)) changed();
      options.log?.(entry);
    };
    const { allowHosts = null, allowAddresses = null } = options.egress ?? {};
    const pool = await openPool({
      references: registry.references,
      egress: { allowHosts, allowAddresses },
      stdio: options.stdio ?? null,
      stateDir: options.stateDir,
      limits: options.limits ?? {},
      log,
      waiting: options.waiting,
    });
    const reporter = reportNode(registry, pool.pool, id, ({ message }) => {
      const text = `the registry rejected a report: ${message}`;
      log({ level: 'info', event: 'report_failed', serverId: null, message: text });
    });
    changed = () => reporter?.changed();
    const forget = metrics && watchMcp(metrics, pool.pool, registry.cache);
    return new RegistryServers(registry, pool, changed, async () => {
      forget?.();
      await reporter?.close();
    });
  }

  /** Notifies before the pool applies a change, so that the audit log has the cause before its effects. */
  onChange(listener: (change: RegistryChange) => void): () => void {
    this.#beforeChange.add(listener);
    return () => this.#beforeChange.delete(listener);
  }

  /** Reports the state of the servers soon. */
  changed(): void {
    this.#report();
  }

  /** The connections of a task. */
  forTask(task: string, stateDir: string | undefined): TaskServers {
    this.#tasks.set(task, (this.#tasks.get(task) ?? 0) + 1);
    const { pool, stateDir: own } = this.#pool;
    return {
      forRun: (run) => pool.forRun({ task, stateDir: stateDir ?? own, run }),
      close: async () => {
        const others = (this.#tasks.get(task) ?? 1) - 1;
        if (others > 0) this.#tasks.set(task, others);
        else this.#tasks.delete(task);
        if (others === 0) await pool.endTask(task);
      },
    };
  }

  /** Closes all connections and ends all server processes. */
  close(): Promise<void> {
    return this.#release();
  }
}

export interface TaskServers {
  forRun(run: string): PoolOfRun;
  /** Closes the connections that no other task uses. */
  close(): Promise<void>;
}
