import { mkdtemp, rm } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { GuestMcp } from '../bridge/guest-mcp.ts';
import type { ToolEvents } from '../bridge/tool-events.ts';
import type { CompiledHostConfig } from '../config/host-config.ts';
import { processEnvironment } from '../config/process-environment.ts';
import { stateDirectory } from '../config/state-directory.ts';
import { TaskConfigError } from '../config/task-config.ts';
import { type EffectiveSet, effectiveSet } from '../policy/effective-set.ts';
import { initialSession, type TaskPolicy } from '../policy/layers.ts';
import { parseTaskPolicy } from '../policy/task-policy.ts';
import { McpPool } from '../pool/pool.ts';
import type { PoolLogEntry } from '../pool/pool-log.ts';
import { createSecretSource } from '../pool/secret-source.ts';
import { NodeReporter } from '../registry/node-report.ts';
import type { AuditTrail } from '../telemetry/audit-event.ts';
import type { RunFlags } from './run-flags.ts';
import { openRunRegistry, type RunRegistry } from './run-registry.ts';
import { sayNoEffect } from './say-no-effect.ts';

export interface RunMcpOptions {
  readonly flags: RunFlags;
  readonly config: Readonly<Record<string, string>>;
  readonly host: CompiledHostConfig;
  readonly run: string;
  readonly audit: AuditTrail;
  readonly events: ToolEvents;
  readonly say: (text: string) => void;
}

export interface RunMcp {
  readonly guest: GuestMcp;
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
  const task = taskPolicy(options);
  const { flags, host, say } = options;
  if (!task.enabled) {
    sayNoEffect(flags, say);
    return null;
  }
  const registry = await openRunRegistry(flags, host.mcp, say);
  const effective = effectiveSet(registry.cache.view(), task, initialSession(task));
  if (registry.cache.view() !== null) warnIfEmpty(effective, say);
  const state = await openState();
  let reporter: NodeReporter | null = null;
  const pool = new McpPool(
    { stateDir: state.directory, ...(processEnvironment.PATH ? { path: processEnvironment.PATH } : {}) },
    {
      secrets: createSecretSource({ ...registry.references, backendKeyNames: host.keyVariables }, processEnvironment),
      log: ({ level, event, serverId, message }) => {
        if (healthEvents.has(event)) reporter?.changed();
        if (level === 'warn' || flags.verbose) say(`${serverId === null ? 'mcp' : `mcp ${serverId}`}: ${message}`);
      },
    },
  );
  registry.cache.onChange((change) => pool.applyChange(change));
  reporter = openReporter(registry, pool, options);
  const { audit, events, run } = options;
  const guest = new GuestMcp({ pool, registry: registry.cache, audit, events }, run, task);
  return {
    guest,
    effective,
    close: async () => {
      guest.close();
      await reporter?.close();
      await pool.close();
      await registry.close();
      await state.release();
    },
  };
}

function taskPolicy({ config, flags, say }: RunMcpOptions): TaskPolicy {
  const parsed = parseTaskPolicy(config);
  const describe = ({ key, message }: { key: string; message: string }) =>
    `${flags.taskConfig}: config.${key}: ${message}`;
  if (!parsed.ok) throw new TaskConfigError(parsed.issues.map(describe).join('\n'));
  for (const warning of parsed.warnings) say(describe(warning));
  return parsed.policy;
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

/** Homes of stdio servers live on between runs, so that what they download is downloaded once. */
async function openState(): Promise<{ directory: string; release(): Promise<void> }> {
  const own = stateDirectory(processEnvironment);
  if (own !== null) return { directory: own, release: async () => {} };
  const directory = await mkdtemp(join(tmpdir(), 'spear-'));
  return { directory, release: () => rm(directory, { recursive: true, force: true }) };
}
