import { join } from 'node:path';
import type { ApprovalConnection } from '../agent/approvals/client.ts';
import { BackendSet } from '../agent/chat/backends/open-backend.ts';
import { parseTaskPolicy } from '../agent/policy/task-policy.ts';
import type { CompiledHostConfig } from '../config/host/host-config.ts';
import type { FindBackend } from '../run/choose-backend.ts';
import { type OpenMcp, openTaskMcp } from '../run/open-mcp.ts';
import type { RegistryServers } from '../run/registry-servers.ts';
import { libraryWords, nodeOptions } from '../run/run-options.ts';
import { compileLimits, type Limits } from '../runtime/port/limits.ts';
import { type AuditSink, noAudit } from '../server/audit/event.ts';
import type { AuditLog } from '../server/audit/log.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import { type TaskRevision, taskId } from '../server/records/task.ts';
import type { Metrics } from '../server/telemetry/metrics.ts';
import type { NodeTasks } from './node-tasks.ts';

/** Resources that the runs of one task revision share. */
export interface TaskRuntime {
  readonly task: TaskRevision;
  readonly wasm: Uint8Array;
  readonly limits: Limits;
  readonly backend: FindBackend;
  readonly mcp: OpenMcp | null;
  /** Why a task with MCP has no servers at all; null: it has servers, or needs none. */
  readonly noServers: { readonly reason: string; readonly isRequired: boolean } | null;
  readonly audit: AuditSink;
}

export interface RuntimesOptions {
  readonly host: CompiledHostConfig;
  readonly modules: Pick<NodeTasks, 'module'>;
  /** Null: no registry. */
  readonly servers: RegistryServers | null;
  /** Directory for the persistent state of stdio servers. */
  readonly stateDir: string;
  readonly audit: AuditLog | null;
  readonly metrics: Metrics;
  /** Name of this node. */
  readonly node: string;
  /** Null: calls that need an approval are denied. */
  readonly approvals: ApprovalConnection | null;
  readonly log: ServiceLog;
}

/** An unused revision is closed after this time, and its servers with it. */
const IDLE_MS = 60_000;

interface OpenRevision {
  readonly opening: Promise<TaskRuntime>;
  users: number;
  timer: NodeJS.Timeout | null;
}

/** Open task revisions, with reference counts. Tasks share server connections only if the record of the server says so. */
export class TaskRuntimes {
  readonly #options: RuntimesOptions;
  readonly #backends: BackendSet;
  readonly #open = new Map<string, OpenRevision>();

  constructor(options: RuntimesOptions) {
    this.#options = options;
    const onStubUsed = () =>
      options.log('warn', 'no_model', { message: 'no model is configured; the stub backend answers' });
    this.#backends = new BackendSet(options.host, { onStubUsed });
  }

  /** Runs `work` with the revision open. */
  async using<T>(task: TaskRevision, work: (runtime: TaskRuntime) => Promise<T>): Promise<T> {
    const key = `${taskId(task)}@${task.revision}`;
    const open = this.#open.get(key) ?? { opening: this.#start(task), users: 0, timer: null };
    this.#open.set(key, open);
    open.users += 1;
    if (open.timer !== null) clearTimeout(open.timer);
    open.timer = null;
    try {
      return await work(await open.opening);
    } finally {
      open.users -= 1;
      if (open.users === 0) this.#closeLater(key, open);
    }
  }

  async close(): Promise<void> {
    const all = [...this.#open.values()];
    this.#open.clear();
    for (const { timer } of all) if (timer !== null) clearTimeout(timer);
    await Promise.all(all.map(async ({ opening }) => (await opening.catch(() => null))?.mcp?.close()));
    await this.#backends.close();
  }

  #closeLater(key: string, open: OpenRevision): void {
    const close = () => {
      this.#open.delete(key);
      void open.opening.then(({ mcp }) => mcp?.close()).catch(() => {});
    };
    open.timer = setTimeout(close, IDLE_MS).unref();
    // A revision that failed to open is retried by the next run.
    open.opening.catch(() => {
      if (this.#open.get(key) === open) this.#open.delete(key);
    });
  }

  async #start(task: TaskRevision): Promise<TaskRuntime> {
    const { host, modules, audit } = this.#options;
    const id = taskId(task);
    return {
      task,
      wasm: await modules.module(task.wasm),
      limits: compileLimits(task.limits),
      backend: (name) => this.#backends.get(name ?? task.backend ?? host.defaultBackend),
      mcp: await this.#openMcp(task, id),
      noServers: this.#noServers(task),
      audit: audit?.forTask(id) ?? noAudit,
    };
  }

  #noServers({ config, namespace }: TaskRevision): TaskRuntime['noServers'] {
    if (this.#options.servers !== null) return null;
    const parsed = parseTaskPolicy(config, namespace);
    if (!parsed.ok || !parsed.policy.enabled || parsed.policy.allowedServerIds?.length === 0) return null;
    const reason = 'the task turns MCP on, but this node has no registry: start it with --sms or --mcp-dir';
    return { reason, isRequired: parsed.policy.requiredServerIds !== undefined };
  }

  async #openMcp(task: TaskRevision, label: string): Promise<OpenMcp | null> {
    const { host, servers, stateDir, metrics, node, approvals: connection, log } = this.#options;
    const { args, env, backend, config, limits, namespace } = task;
    if (servers === null) return null;
    const say = (message: string) => log('warn', 'task', { task: label, message });
    const about = {
      task: { name: label, namespace, config, limits, args, env, backend, wasm: task.wasm },
      label,
      id: `${node}-${task.namespace}-${task.name}`,
      words: { ...libraryWords, approvalRules: `${host.file}: mcp.approval_rules` },
      approvals: connection === null ? null : { connection, namespace },
    };
    const own = { stateDir: join(stateDir, task.namespace, task.name), metrics, onNotice: say };
    return openTaskMcp({ ...nodeOptions(host), ...own }, about, servers);
  }
}
