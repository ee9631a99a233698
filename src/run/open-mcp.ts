import { ApprovalClient, ApprovalConnection } from '../agent/approvals/client.ts';
import { GuestMcp } from '../agent/mcp/guest-mcp.ts';
import type { ApprovalRule, ApprovalRules } from '../agent/policy/approval-rules.ts';
import { parseApprovalRules } from '../agent/policy/approval-rules-parse.ts';
import { type EffectiveSet, effectiveSet } from '../agent/policy/effective-set.ts';
import { type ParsedTaskPolicy, parseTaskPolicy } from '../agent/policy/task-policy.ts';
import { ConfigError } from '../config/config-error.ts';
import { refuseUnknownKeys } from '../config/option-keys.ts';
import { loadTaskConfig, type TaskConfig, taskLabel } from '../config/task-config.ts';
import type { RegistryStatus } from '../registry-client/kind-cache.ts';
import type { RegistryChange } from '../registry-client/snapshot.ts';
import { initialSession, type TaskPolicy } from '../runtime/port/policy-layers.ts';
import type { AuditSink } from '../server/audit/event.ts';
import type { McpProfile } from '../server/records/profile.ts';
import { openRunRegistry, type RegistryWords } from './open-registry.ts';
import { RegistryServers, type TaskServers } from './registry-servers.ts';
import { nodeId } from './report-node.ts';
import type { McpOfRun, McpRun, RunMcp } from './run-mcp.ts';
import { libraryWords, type McpNodeOptions, type McpOptions, mcpOptionKeys, newRunId } from './run-options.ts';

/**
 * MCP for guests of one task: its registry and its connections, which several runs may use one after the other or at
 * once. `await using` closes it.
 * @throws ConfigError if an option or the task cannot be used, or there is no registry; McpConnectionError if one of
 * `servers` is wrong
 */
export async function openMcp(options: McpOptions): Promise<OpenMcp> {
  refuseUnknownKeys('openMcp', options, mcpOptionKeys);
  const task = await loadTaskConfig(options.task);
  const about = { task, label: taskLabel(options.task), id: newRunId(), words: libraryWords };
  const opened = await openTaskMcp(options, about);
  if (opened !== null) return opened;
  throw new ConfigError(`${about.label}: MCP is off: set "mcp.enabled" to true in the task config`);
}

/** The task whose MCP is opened, and the names of its options. */
export interface TaskMcp {
  readonly task: TaskConfig;
  /** Name of the task's config in messages. */
  readonly label: string;
  /** Id of this node for the registry. */
  readonly id: string;
  readonly words: RegistryWords & { readonly approvalRules: string };
  /** Where its runs ask for approvals, and for which namespace. @default the registry, for the namespace of the node */
  readonly approvals?: { readonly connection: ApprovalConnection; readonly namespace: string } | null;
}

/** Null if MCP is off for the task. `shared`: servers that other tasks use too, and that stay open. */
export async function openTaskMcp(
  options: Omit<McpOptions, 'task'>,
  about: TaskMcp,
  shared: RegistryServers | null = null,
): Promise<OpenMcp | null> {
  const say = options.onNotice ?? (() => {});
  const { policy: parsed, approvalRules } = readPolicy(about, say);
  // A node names its tasks `NAMESPACE/NAME`.
  const name = about.task.name?.split('/').at(-1);
  const policy = name === undefined ? parsed : Object.freeze({ ...parsed, name });
  if (!policy.enabled) return null;
  const rules = Object.freeze({ node: nodeRules(options, about, say), task: approvalRules });
  const { words } = about;
  const registry =
    shared?.registry ??
    (await openRunRegistry(options, { words, say, profiles: policy.profile !== null, waiting: options.waiting }));
  const view = registry.cache.view();
  const effective = effectiveSet(view, policy, initialSession(policy));
  if (view !== null) warnIfEmpty(effective, say);
  const servers = shared ?? (await RegistryServers.open(options, registry, about.id));
  const { labels } = options.metrics?.mcp ?? {};
  for (const id of policy.allowedServerIds ?? effective.serverIds) labels?.knowServer(id);
  const ofTask = servers.forTask(about.label, options.stateDir);
  const release = async () => {
    await ofTask.close();
    if (shared !== null) return;
    await servers.close();
    await registry.close();
  };
  return new OpenMcp({ ...about, policy, rules, servers, ofTask, effective }, say, release);
}

interface Opening extends TaskMcp {
  readonly policy: TaskPolicy;
  readonly rules: ApprovalRules;
  readonly servers: RegistryServers;
  readonly ofTask: TaskServers;
  readonly effective: EffectiveSet;
}

/**
 * MCP of one task, for `runGuest({ mcp })`. Runs of the task may use it concurrently; each has its own sessions and
 * approvals (`forRun`). Changes of the registry are written to the audit log of every run. `close` waits for approval
 * requests that ended runs withdraw.
 */
export class OpenMcp implements RunMcp, AsyncDisposable {
  readonly taskName: string | null;
  /** Effective set of a default session, at the start. */
  readonly effective: EffectiveSet;
  readonly #opening: Opening;
  readonly #runs = new Set<McpRun>();
  readonly #release: () => Promise<void>;
  readonly #say: (text: string) => void;
  /** Pending withdrawals of ended runs. */
  readonly #leaving = new Set<Promise<void>>();
  readonly #unsubscribe: readonly ((() => void) | undefined)[];
  #connection: ApprovalConnection | undefined;
  #closing: Promise<void> | undefined;

  /** @internal */
  constructor(opening: Opening, say: (text: string) => void, release: () => Promise<void>) {
    this.#say = say;
    this.taskName = opening.task.name;
    this.effective = opening.effective;
    this.#opening = opening;
    this.#release = release;
    const { servers } = opening;
    const { cache } = servers.registry;
    this.#unsubscribe = [
      servers.onChange((change) => {
        for (const { audit, run } of this.#runs) auditRegistry(change, audit, run);
      }),
      cache.profiles?.onChange((change) => {
        for (const { audit, run } of this.#runs) auditProfiles(change, audit, run);
      }),
      cache.onStatus((status) => {
        for (const { audit, run } of this.#runs) auditRegistryState(status, audit, run);
      }),
    ];
  }

  forRun(run: McpRun): McpOfRun & { readonly guest: GuestMcp } {
    if (this.#closing !== undefined) throw new ConfigError('mcp: already closed');
    const { servers, ofTask, policy, rules, task } = this.#opening;
    const { registry } = servers;
    const { audit, events } = run;
    const snapshot = registry.cache.snapshot();
    if (snapshot !== null) {
      auditRegistry({ snapshot, upserted: [...snapshot.records.keys()].sort(), deleted: [] }, audit, run.run);
    }
    const profiles = registry.cache.profiles?.snapshot() ?? null;
    if (profiles !== null) {
      auditProfiles({ snapshot: profiles, upserted: [...profiles.records.keys()].sort(), deleted: [] }, audit, run.run);
    }
    this.#runs.add(run);
    const { approve, elicit, decidedBy, approvalTimeoutMs: timeoutMs, stopClocks } = run;
    const client = approve === 'sms' ? this.#approvalClient(run) : null;
    const decide = approve === 'sms' ? null : approve;
    const pool = ofTask.forRun(run.run);
    const deps = {
      pool,
      registry: registry.cache,
      audit,
      events,
      journal: run.journal ?? null,
      trace: run.trace ?? null,
      stopClocks,
      troubles: run.troubles,
    };
    const asked = { decide, client, elicit, decidedBy, timeoutMs };
    const guest = new GuestMcp(deps, run.run, policy, { task: task.name, rules, ...asked });
    const unsubscribe = events.subscribe(() => servers.changed());
    return {
      guest,
      close: () => {
        unsubscribe();
        guest.close();
        pool.close();
        this.#runs.delete(run);
        if (client !== null) this.#leave(client);
      },
    };
  }

  /** @throws ConfigError if there is no registry */
  #approvalClient({ approvalTimeoutMs: fileWithinMs, waits, submittedBy = null }: McpRun): ApprovalClient {
    const { approvals = null } = this.#opening;
    const connection = approvals?.connection ?? this.#ownConnection();
    return new ApprovalClient({
      ...{ connection, fileWithinMs, waits, submittedBy },
      namespace: approvals?.namespace ?? null,
      say: this.#say,
    });
  }

  #ownConnection(): ApprovalConnection {
    const { servers, id, words } = this.#opening;
    const port = servers.registry.approvals?.(nodeId(id)) ?? null;
    if (port === null) throw new ConfigError(`approvals by sms need a registry; name one with ${words.sms}`);
    this.#connection ??= new ApprovalConnection(port, this.#say);
    return this.#connection;
  }

  #leave(client: ApprovalClient): void {
    const left = client.close().finally(() => this.#leaving.delete(left));
    this.#leaving.add(left);
  }

  /** Ends all servers of the task. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #end(): Promise<void> {
    await Promise.all(this.#leaving);
    await this.#connection?.close();
    await this.#release();
    for (const stop of this.#unsubscribe) stop?.();
  }
}

function readPolicy({ task, label }: TaskMcp, say: (text: string) => void): Extract<ParsedTaskPolicy, { ok: true }> {
  const parsed = parseTaskPolicy(task.config, task.namespace);
  const describe = ({ key, message }: { key: string; message: string }) => `${label}: config.${key}: ${message}`;
  if (!parsed.ok) throw new ConfigError(parsed.issues.map(describe).join('\n'));
  for (const warning of parsed.warnings) say(describe(warning));
  return parsed;
}

function nodeRules(
  { approvalRules = [] }: McpNodeOptions,
  { words }: TaskMcp,
  say: (text: string) => void,
): readonly ApprovalRule[] {
  const parsed = parseApprovalRules(approvalRules);
  const describe = ({ path, message }: { path: string; message: string }) =>
    `${words.approvalRules}${path}: ${message}`;
  if (!parsed.ok) throw new ConfigError(parsed.issues.map(describe).join('\n'));
  for (const warning of parsed.warnings) say(describe(warning));
  return parsed.rules;
}

/** A task without a default set has its own warning. */
function warnIfEmpty({ serverIds, exclusions }: EffectiveSet, say: (text: string) => void): void {
  if (serverIds.length > 0 || exclusions.length === 0) return;
  say(`no MCP tools for the model: ${exclusions.map(({ detail }) => detail).join('; ')}`);
}

/** Maximum of ids per audit event; the event also has the total. */
const MAX_IDS = 100;

/** Writes an audit event for a change of the registry, or for its records at the start of a run. */
export function auditRegistry(change: RegistryChange, audit: AuditSink, run: string): void {
  audit.write(run, { event: 'registry.applied', ...changeFields(change) });
}

/** As {@link auditRegistry}, for profiles. */
export function auditProfiles(change: RegistryChange<McpProfile>, audit: AuditSink, run: string): void {
  audit.write(run, { event: 'profiles.applied', ...changeFields(change) });
}

function changeFields({ snapshot, upserted, deleted }: RegistryChange<unknown>) {
  return {
    epoch: snapshot.epoch,
    revision: snapshot.revision,
    upserted: upserted.slice(0, MAX_IDS),
    deleted: deleted.slice(0, MAX_IDS),
    upserts: upserted.length,
    deletes: deleted.length,
  };
}

/** Writes an audit event when the registry rejects this node, is unreachable, or responds again. */
export function auditRegistryState({ state, lastError: reason }: RegistryStatus, audit: AuditSink, run: string): void {
  if (state !== 'starting') audit.write(run, { event: 'registry.state', state, reason });
}
