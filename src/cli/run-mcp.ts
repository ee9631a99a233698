import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GuestMcp } from '../bridge/guest-mcp.ts';
import type { ToolEvents } from '../bridge/tool-events.ts';
import type { CompiledHostConfig } from '../config/host-config.ts';
import { processEnvironment } from '../config/process-environment.ts';
import { stateDirectory } from '../config/state-directory.ts';
import { TaskConfigError } from '../config/task-config.ts';
import type { TaskPolicy } from '../policy/layers.ts';
import { parseTaskPolicy } from '../policy/task-policy.ts';
import { McpPool } from '../pool/pool.ts';
import { createSecretSource } from '../pool/secret-source.ts';
import { RegistryCache } from '../registry/cache.ts';
import { describeProblem, loadDirectory } from '../sms/directory.ts';
import { inProcessSource } from '../sms/store/in-process-source.ts';
import { createMemoryStore } from '../sms/store/memory-store.ts';
import type { AuditTrail } from '../telemetry/audit-event.ts';
import { UsageError } from './usage-error.ts';

/** How long a run waits for the records before it goes on without them. */
const FIRST_SNAPSHOT_MS = 5_000;

export interface RunMcpOptions {
  readonly config: Readonly<Record<string, string>>;
  /** The file that `config` came from, for messages. */
  readonly configFile: string;
  readonly directory: string | undefined;
  readonly strict: boolean;
  readonly host: CompiledHostConfig;
  readonly run: string;
  readonly audit: AuditTrail;
  readonly events: ToolEvents;
  readonly verbose: boolean;
  readonly say: (text: string) => void;
}

export interface RunMcp {
  readonly guest: GuestMcp;
  /** Ends every server that was started. */
  close(): Promise<void>;
}

/** MCP for one run, or null if the task does not have it on. */
export async function openRunMcp(options: RunMcpOptions): Promise<RunMcp | null> {
  const task = taskPolicy(options);
  if (!task.enabled) return null;
  const { say } = options;
  if (options.directory === undefined) say('the task has MCP on, but there is no registry: --mcp-dir names one');

  const store = createMemoryStore();
  if (options.directory !== undefined) await loadRecords(store, options.directory, options.strict, say);
  const registry = new RegistryCache({ source: inProcessSource(store) });
  registry.start();
  await registry.ready(FIRST_SNAPSHOT_MS);
  warnIfEmpty(registry, task, say);

  const state = await openState();
  const { host } = options;
  const pool = new McpPool(
    { stateDir: state.directory, ...(processEnvironment.PATH ? { path: processEnvironment.PATH } : {}) },
    {
      secrets: createSecretSource(
        { mode: 'user_owned', names: [], paths: [], backendKeyNames: host.keyVariables },
        processEnvironment,
      ),
      log: ({ level, serverId, message }) => {
        if (level === 'warn' || options.verbose) say(`${serverId === null ? 'mcp' : `mcp ${serverId}`}: ${message}`);
      },
    },
  );
  registry.onChange((change) => pool.applyChange(change));
  const guest = new GuestMcp({ pool, registry, audit: options.audit, events: options.events }, options.run, task);
  return {
    guest,
    close: async () => {
      guest.close();
      await pool.close();
      await registry.close();
      await store.close();
      await state.release();
    },
  };
}

function taskPolicy({ config, configFile, say }: RunMcpOptions): TaskPolicy {
  const parsed = parseTaskPolicy(config);
  if (!parsed.ok) {
    throw new TaskConfigError(
      parsed.issues.map(({ key, message }) => `${configFile}: config.${key}: ${message}`).join('\n'),
    );
  }
  for (const { key, message } of parsed.warnings) say(`${configFile}: config.${key}: ${message}`);
  return parsed.policy;
}

async function loadRecords(
  store: ReturnType<typeof createMemoryStore>,
  directory: string,
  strict: boolean,
  say: (text: string) => void,
): Promise<void> {
  const { outcome, problems } = await loadDirectory(store, directory, { strict, dryRun: false }).catch((error) => {
    throw new UsageError(`--mcp-dir ${directory}: ${(error as Error).message}`);
  });
  for (const problem of problems) say(describeProblem(directory, problem));
  if (outcome === 'refused') throw new UsageError(`--mcp-dir ${directory}: --strict refuses the files above`);
}

function warnIfEmpty(registry: RegistryCache, task: TaskPolicy, say: (text: string) => void): void {
  const known = registry.view()?.servers;
  const missing = task.defaultServerIds.filter((id) => !known?.has(id));
  if (missing.length === task.defaultServerIds.length && missing.length > 0) {
    say(`none of the task's MCP servers is in the registry (${missing.join(', ')}): the model will see no MCP tools`);
  }
}

/** Homes of stdio servers live on between runs, so that what they download is downloaded once. */
async function openState(): Promise<{ directory: string; release(): Promise<void> }> {
  const own = stateDirectory(processEnvironment);
  if (own !== undefined) return { directory: own, release: async () => {} };
  const directory = await mkdtemp(join(tmpdir(), 'spear-'));
  return { directory, release: () => rm(directory, { recursive: true, force: true }) };
}
