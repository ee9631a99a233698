import { hostname } from 'node:os';
import type { Readable } from 'node:stream';
import type { AuditTrail } from '../../audit/event.ts';
import { ConfigError } from '../../config/config-error.ts';
import type { CompiledHostConfig } from '../../config/host/host-config.ts';
import type { TaskConfig } from '../../config/task/task-config.ts';
import { GuestMcp } from '../../mcp/guest-mcp.ts';
import type { ToolEvents } from '../../mcp/tool-events.ts';
import { watchMcp } from '../../mcp/watch-mcp.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import { type EffectiveSet, effectiveSet } from '../../policy/effective-set.ts';
import { type ParsedTaskPolicy, parseTaskPolicy } from '../../policy/task-policy.ts';
import type { McpPool } from '../../pool/pool.ts';
import type { PoolLogEntry } from '../../pool/pool-log.ts';
import type { Limits } from '../../protocol/limits.ts';
import { initialSession } from '../../protocol/policy-layers.ts';
import { NodeReporter } from '../../registry/node-report.ts';
import { auditRegistry } from '../../run/audit-registry.ts';
import { openRunPool } from '../../run/open-pool.ts';
import { openRunRegistry, type RunRegistry } from '../../run/open-registry.ts';
import { openApprovals } from './approvals.ts';
import type { RunFlags } from './flags.ts';
import { waits } from './output.ts';
import { sayNoEffect } from './unused-registry.ts';

export interface RunMcpOptions {
  readonly flags: RunFlags;
  readonly taskName: string | null;
  readonly config: TaskConfig['config'];
  readonly limits: Limits;
  readonly host: CompiledHostConfig;
  readonly run: string;
  readonly audit: AuditTrail;
  readonly events: ToolEvents;
  readonly metrics: Metrics | null;
  readonly say: (text: string) => void;
}

export interface RunMcp {
  readonly guest: GuestMcp;
  /** The guest's input where prompts need the same terminal, else null. */
  readonly stdin: () => Readable | null;
  /** What a session gets that asks for nothing else, as the registry stands at the start. */
  readonly effective: EffectiveSet;
  /** Ends every server that was started. */
  close(): Promise<void>;
}

/** What changes the picture that a registry has of this node. */
const healthEvents: ReadonlySet<PoolLogEntry['event']> = new Set([
  'connected',
  'connect_failed',
  'connection_lost',
  'idle_closed',
  'tools_listed',
  'list_failed',
]);

/** MCP for one run, or null if the task does not have it on. */
export async function openRunMcp(options: RunMcpOptions): Promise<RunMcp | null> {
  const { policy: task, approvalRules } = readTask(options);
  const { flags, host, metrics, say } = options;
  if (!task.enabled) {
    sayNoEffect(flags, say);
    return null;
  }
  const approvals = openApprovals(options, approvalRules);
  const registry = await openRunRegistry(flags, host.mcp, say, undefined, waits.waiting);
  const effective = effectiveSet(registry.cache.view(), task, initialSession(task));
  if (registry.cache.view() !== null) warnIfEmpty(effective, say);
  let reporter: NodeReporter | null = null;
  const { pool, close: closePool } = await openRunPool(
    registry.references,
    host,
    (entry) => {
      const { level, event, serverId, message } = entry;
      metrics?.mcp.poolEvent(entry);
      if (healthEvents.has(event)) reporter?.changed();
      if (level === 'warn' || flags.verbose) say(`${serverId === null ? 'mcp' : `mcp ${serverId}`}: ${message}`);
    },
    {},
    waits.waiting,
  );
  auditRegistry(registry.cache, options.audit, options.run);
  registry.cache.onChange((change) => pool.applyChange(change));
  reporter = openReporter(registry, pool, options);
  const { audit, events, run } = options;
  const guest = new GuestMcp({ pool, registry: registry.cache, audit, events }, run, task, approvals.options);
  for (const id of task.allowedServerIds) metrics?.mcp.labels.knowServer(id);
  const forget = metrics && watchMcp(metrics.mcp, pool, registry.cache);
  return {
    guest,
    stdin: approvals.stdin,
    effective,
    close: async () => {
      forget?.();
      guest.close();
      await reporter?.close();
      await closePool();
      await registry.close();
    },
  };
}

function readTask({ config, flags, say }: RunMcpOptions): Extract<ParsedTaskPolicy, { ok: true }> {
  const parsed = parseTaskPolicy(config);
  const describe = ({ key, message }: { key: string; message: string }) =>
    `${flags.taskConfig}: config.${key}: ${message}`;
  if (!parsed.ok) throw new ConfigError(parsed.issues.map(describe).join('\n'));
  for (const warning of parsed.warnings) say(describe(warning));
  return parsed;
}

/** A task without a default set was warned of that already. */
function warnIfEmpty({ serverIds, exclusions }: EffectiveSet, say: (text: string) => void): void {
  if (serverIds.length > 0 || exclusions.length === 0) return;
  say(`the model will see no MCP tools: ${exclusions.map(({ detail }) => detail).join('; ')}`);
}

/** Tells the registry what this node sees of the servers, while the run lasts. */
function openReporter(
  { cache, reports }: RunRegistry,
  pool: McpPool,
  { run, events, flags, say }: RunMcpOptions,
): NodeReporter | null {
  if (reports === null) return null;
  const reporter = new NodeReporter({
    target: reports,
    onFailure: (error) => {
      if (flags.verbose) say(`the registry did not take a report: ${(error as Error).message}`);
    },
    collect: () => {
      const status = cache.status();
      return {
        nodeId: nodeId(run),
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
  events.subscribe(() => reporter.changed());
  return reporter;
}

/** Which machine, and which run on it, in the letters that a registry takes. */
const nodeId = (run: string) =>
  `${hostname()
    .replaceAll(/[^A-Za-z0-9._-]/g, '-')
    .slice(0, 64)}:${run}`;
