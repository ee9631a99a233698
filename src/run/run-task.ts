import { basename } from 'node:path';
import type { ChatBackend } from '../agent/chat/backend.ts';
import { BackendSet } from '../agent/chat/backends/open-backend.ts';
import type { Exclusion } from '../agent/policy/decision.ts';
import { componentCacheDirectory } from '../config/directories.ts';
import { type CompiledHostConfig, loadHostConfig } from '../config/host/host-config.ts';
import { refuseUnknownKeys } from '../config/option-keys.ts';
import { processEnvironment } from '../config/process-environment.ts';
import { loadTaskConfig, type TaskConfig, taskLabel } from '../config/task-config.ts';
import type { CompiledTelemetry } from '../config/telemetry.ts';
import { compileLimits, type Limits } from '../runtime/port/limits.ts';
import { guestNotices } from '../runtime/wasm/guest-notices.ts';
import { describePrepared, prepare, readModule } from '../runtime/wasm/prepare.ts';
import { type AuditSink, noAudit } from '../server/audit/event.ts';
import type { AuditLog } from '../server/audit/log.ts';
import { compileBackendOption, type FindBackend, withDefaultBackend } from './choose-backend.ts';
import type { OpenMcp } from './open-mcp.ts';
import { type RunResult, runGuest } from './run-guest.ts';
import {
  type JournalOption,
  libraryWords,
  newRunId,
  nodeOptions,
  refuseUnknownMcpKeys,
  type TaskOptions,
  type TaskRunOptions,
  type TaskWords,
  taskOptionKeys,
  taskRunOptionKeys,
} from './run-options.ts';
import type { TaskTelemetry } from './task-telemetry.ts';

/** Result of a check: what a run would use. */
export interface TaskCheck {
  /** Description of the module. */
  readonly module: string;
  readonly moduleBytes: number;
  /** The name of the default backend. */
  readonly backend: string;
  readonly limits: Limits;
  /** MCP servers of a default session, and why the others are excluded. */
  readonly servers: readonly string[];
  readonly exclusions: readonly Exclusion[];
}

/**
 * Runs a task as `spear-run` does: the module with the task's config, on a host with the host's config.
 * @throws ConfigError, RangeError, BackendError, McpConnectionError for invalid options; never for what the guest does
 */
export async function runTask(options: TaskOptions): Promise<RunResult> {
  await using task = await openTask(options);
  return await task.run();
}

/** Opens what the runs of a task share, for {@link OpenTask.run} and {@link OpenTask.check}. `await using` closes it. */
export async function openTask(options: TaskOptions, words: TaskWords = libraryWords): Promise<OpenTask> {
  refuseUnknownKeys('runTask', options, taskOptionKeys);
  // Read concurrently with the setup.
  const wasm = typeof options.wasm === 'string' ? readModule(options.wasm) : options.wasm;
  const task = await loadTaskConfig(options.task);
  const limits = compileLimits({ ...task.limits, ...options.limits });
  const label = taskLabel(options.task);
  const asked =
    typeof options.backend === 'string'
      ? { name: options.backend, from: words.backend }
      : options.backend === undefined && task.backend !== null
        ? { name: task.backend, from: `${label}: backend` }
        : null;
  const host = withDefaultBackend(await loadHostConfig({ file: options.config, env: processEnvironment }), asked);
  const models = openModels(options, host, words);
  const id = options.run ?? newRunId();
  const telemetry = host.telemetry && (await openTelemetryOf(options, host.telemetry, words));
  const metrics = telemetry === null ? options.metrics : telemetry.metrics;
  const mcp = await openMcpOf({ ...options, metrics }, task, host, { label, id, words });
  return new OpenTask({ ...options, metrics }, { wasm, id, task, limits, host, mcp, models, telemetry });
}

interface Opened {
  readonly wasm: Uint8Array | Promise<Uint8Array>;
  /** Id of the first run. */
  readonly id: string;
  readonly task: TaskConfig;
  readonly limits: Limits;
  readonly host: CompiledHostConfig;
  readonly mcp: OpenMcp | null;
  readonly models: OpenModels;
  readonly telemetry: TaskTelemetry | null;
}

interface OpenModels {
  readonly find: FindBackend;
  close(): Promise<void>;
}

/** Models of the host's config, unless the caller passes a backend, which the caller closes. */
function openModels(
  { backend, onNotice, waiting }: TaskOptions,
  host: CompiledHostConfig,
  words: TaskWords,
): OpenModels {
  const onStubUsed = () => onNotice?.(words.stubUsed);
  if (backend !== undefined && typeof backend !== 'string') {
    return { find: compileBackendOption(backend, onStubUsed), close: async () => {} };
  }
  const backends = new BackendSet(host, { onStubUsed, waiting });
  return { find: (name) => backends.get(name), close: () => backends.close() };
}

/** Loaded only if traces or metrics are exported. */
async function openTelemetryOf({ metrics, onNotice }: TaskOptions, config: CompiledTelemetry, words: TaskWords) {
  const { TaskTelemetry } = await import('./task-telemetry.ts');
  return new TaskTelemetry(config, words.service, metrics ?? null, onNotice ?? (() => {}));
}

/** Loaded only for a task with MCP keys: loading the libraries takes longer than the whole run of a small guest. */
async function openMcpOf(
  { mcp = {}, metrics, waiting, onNotice = () => {} }: TaskOptions,
  task: TaskConfig,
  host: CompiledHostConfig,
  { label, id, words }: { readonly label: string; readonly id: string; readonly words: TaskWords },
): Promise<OpenMcp | null> {
  let opened: OpenMcp | null = null;
  if (Object.keys(task.config).some((key) => key.startsWith('mcp.'))) {
    const { openTaskMcp } = await import('./open-mcp.ts');
    refuseUnknownMcpKeys(mcp);
    const rules = mcp.approvalRules === undefined ? `${host.file}: mcp.approval_rules` : words.approvalRules;
    const about = { task, label, id, words: { ...words, approvalRules: rules } };
    opened = await openTaskMcp({ ...nodeOptions(host), ...mcp, metrics, onNotice, waiting }, about);
  }
  const unused = opened === null ? (['servers', 'directory', 'sms'] as const).find((key) => mcp[key]) : undefined;
  if (unused) onNotice(`${words[unused]} has no effect: the task config does not turn MCP on (mcp.enabled)`);
  return opened;
}

/**
 * A task with its config, host, models, MCP and telemetry open. Runs may be concurrent; the first one has the id given in
 * the options. `close` ends the servers and the audit log that were opened here, not what the caller passed in.
 */
export class OpenTask implements AsyncDisposable {
  /** Name in the task's config. */
  readonly name: string | null;
  readonly mcp: OpenMcp | null;
  readonly limits: Limits;
  /** File and audit settings of the host's config. */
  readonly host: Pick<CompiledHostConfig, 'file' | 'audit'>;
  readonly #options: TaskOptions;
  readonly #opened: Opened;
  readonly #componentCache: string | null;
  #runId: string | undefined;
  #log: Promise<AuditLog> | null = null;
  #closing: Promise<void> | undefined;

  constructor(options: TaskOptions, opened: Opened) {
    const { task, limits, host, mcp, id } = opened;
    this.name = task.name;
    this.mcp = mcp;
    this.limits = limits;
    this.host = host;
    this.#options = options;
    this.#opened = opened;
    this.#runId = id;
    const { componentCache = componentCacheDirectory(processEnvironment) } = options;
    this.#componentCache = componentCache;
  }

  /**
   * Loads what a run would load, without running the guest.
   * @throws ModuleError, BackendError
   */
  async check(): Promise<TaskCheck> {
    const backend = await this.#opened.models.find(undefined);
    const { allowUnknownImports = false, onNotice = () => {} } = this.#options;
    const bytes = await this.#opened.wasm;
    const componentCache = this.#componentCache;
    const prepared = await prepare(bytes, { limits: this.limits, allowUnknownImports, componentCache, onNotice });
    for (const notice of guestNotices(prepared, this.#args(this.#options.args))) onNotice(notice);
    return {
      module: describePrepared(prepared),
      moduleBytes: bytes.byteLength,
      backend: backend.name,
      limits: this.limits,
      servers: this.mcp?.effective.serverIds ?? [],
      exclusions: this.mcp?.effective.exclusions ?? [],
    };
  }

  /** Runs the guest; `more` overrides the options of the task. Never throws for what the guest does. */
  async run(more: TaskRunOptions = {}): Promise<RunResult> {
    refuseUnknownKeys('run', more, taskRunOptionKeys);
    const { task: _task, config: _config, waiting: _waiting, ...options } = { ...this.#options, ...more };
    const { wasm, task, telemetry } = this.#opened;
    const run = more.run ?? this.#runId ?? newRunId();
    this.#runId = undefined;
    const module = typeof options.wasm === 'string' ? options.wasm : null;
    return runGuest({
      ...options,
      tracing: options.tracing ?? telemetry?.tracing(this.name) ?? null,
      ...(options.journal ? { journal: { module, ...options.journal, key: this.#journalKey(options.journal) } } : {}),
      wasm,
      run,
      args: this.#args(options.args),
      env: { ...task.env, ...options.env },
      limits: this.limits,
      backend: this.#models(options.journal),
      componentCache: this.#componentCache,
      mcp: this.mcp,
      audit: await this.#openAudit(options.audit),
    });
  }

  /** Ends all servers, and closes the audit log that was opened here. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #args(more: TaskOptions['args'] = []): string[] {
    return [moduleName(this.#options.wasm), ...this.#opened.task.args, ...more];
  }

  /** A resumed run continues a scripted backend where its journal ends. Nodes share a script between runs, and do not. */
  #models(journal: JournalOption | null | undefined): FindBackend {
    const { models } = this.#opened;
    if (journal?.mode !== 'resume') return models.find;
    const key = this.#journalKey(journal);
    const continued = new Set<ChatBackend>();
    return async (name) => {
      const backend = await models.find(name);
      if (backend.continueAfter !== undefined && !continued.has(backend)) {
        continued.add(backend);
        const { readJournal } = await import('../runtime/durable/read-journal.ts');
        const { journalKey } = await import('../runtime/durable/blocks.ts');
        const opened = key === null ? null : journalKey(key);
        backend.continueAfter(readJournal(journal.file, opened, journal.place?.bytes ?? null).records);
      }
      return backend;
    };
  }

  #journalKey({ key }: JournalOption): string | null {
    return key === undefined ? (this.#opened.host.journal.key?.().reveal() ?? null) : key;
  }

  async #openAudit(given: TaskOptions['audit']): Promise<AuditSink> {
    if (given !== undefined) return 'forTask' in given ? given.forTask(this.name) : given;
    const { file: path, onFailure: failureMode, key: readKey, ...config } = this.host.audit;
    if (path === null) return noAudit;
    const key = readKey?.().reveal() ?? null;
    this.#log ??= import('../server/audit/log.ts').then(({ openAuditLog }) =>
      openAuditLog({ path, failureMode, key, ...config }),
    );
    return (await this.#log).forTask(this.name);
  }

  async #end(): Promise<void> {
    await this.mcp?.close();
    await this.#opened.models.close();
    await (await this.#log)?.close();
    await this.#opened.telemetry?.close();
  }
}

const moduleName = (wasm: TaskOptions['wasm']) => (typeof wasm === 'string' ? basename(wasm) : 'guest');
