import { resolve } from 'node:path';
import type { Readable } from 'node:stream';
import type { ApprovalDecider } from '../agent/approvals/request.ts';
import type { ModelEvent } from '../agent/chat/model-events.ts';
import { traceModel } from '../agent/chat/observed-backend.ts';
import type { ElicitationDecider } from '../agent/mcp/client/elicitation/question.ts';
import { ToolEvents } from '../agent/mcp/tool-events.ts';
import type { JsonObject } from '../base/json.ts';
import type { Waiting } from '../base/listeners.ts';
import { ConfigError } from '../config/config-error.ts';
import type { CompiledHostConfig, StdioPolicy } from '../config/host/host-config.ts';
import { type OptionKeys, refuseUnknownKeys } from '../config/option-keys.ts';
import { MIN_KEY_CHARS } from '../config/secret-reference.ts';
import type { TaskInput } from '../config/task-config.ts';
import { type JournalSync, journalSyncs } from '../runtime/durable/journal.ts';
import type { JournalStorage } from '../runtime/durable/journal-file.ts';
import { compileOutput, type OutputOption, type OutputTarget } from '../runtime/host/guest-stdio.ts';
import type { GuestThreads } from '../runtime/host/guest-threads.ts';
import type { RecordedValues, StandardStream } from '../runtime/port/guest-spec.ts';
import { compileLimits, type LimitName, type Limits } from '../runtime/port/limits.ts';
import { readModule } from '../runtime/wasm/prepare.ts';
import { type AuditSink, noAudit } from '../server/audit/event.ts';
import type { AuditLog } from '../server/audit/log.ts';
import type { EgressOptions } from '../server/egress/egress.ts';
import type { RunDegradation } from '../server/records/run.ts';
import type { Metrics } from '../server/telemetry/metrics.ts';
import type { RunTracing } from '../server/telemetry/span.ts';
import { type BackendOption, compileBackendOption, type FindBackend } from './choose-backend.ts';
import type { LongWaitsOption } from './long-waits.ts';
import type { RegistryOptions, RegistryWords } from './open-registry.ts';
import type { McpLogEntry } from './registry-servers.ts';
import type { RunMcp } from './run-mcp.ts';
import type { StreamListener } from './streams/stream-listener.ts';

/*
 * All options of the library's entry points: RunOptions (`runGuest`), TaskOptions (`runTask`, `openTask`), McpOptions
 * (`openMcp`) and JournalOption. Unknown keys are errors, so that a typing error is not silently a default. RunOptions are
 * compiled once into a frozen object with all defaults; nothing else reads defaults.
 */

export interface RunOptions {
  /** The file of the module, its bytes, or a promise of them: the guest's thread starts meanwhile. */
  readonly wasm: string | Uint8Array | Promise<Uint8Array>;
  /**
   * The model: one backend, or a function that finds the one a session names (`undefined`: it names none).
   * @default a stub, which says so through `onNotice` when it first answers
   */
  readonly backend?: BackendOption | undefined;
  /** argv, its first entry the program's name. @default ['guest'] */
  readonly args?: readonly string[] | undefined;
  /** The whole environment of the guest. @default empty */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** @default see limitSpecs */
  readonly limits?: Readonly<Partial<Record<LimitName, number>>> | undefined;
  /**
   * Where the guest's output goes: `{ stdout, stderr }`, each a file descriptor, a `Writable` or a function of the
   * bytes; or one function `(stream, bytes)`. All of it has been handed over when the run ends.
   * @default { stdout: 1, stderr: 2 }
   */
  readonly output?: OutputOption | undefined;
  /** Opened when the guest first reads; null: an empty input. @default empty */
  readonly stdin?: (() => Readable | null) | undefined;
  /** Source of clients of the guest's user streams. @default none: calls fail with ENOTCONN */
  readonly streams?: StreamListener | null | undefined;
  /** Whether debug and trace lines of the guest are written. @default false */
  readonly verbose?: boolean | undefined;
  /** Whether unknown imports are linked to a stub that returns ENOSYS. @default false */
  readonly allowUnknownImports?: boolean | undefined;
  /** Directory for compiled components, accessible to this user only; null: compile on every run. @default null */
  readonly componentCache?: string | null | undefined;
  /** Stops the guest when aborted. @default never */
  readonly signal?: AbortSignal | undefined;
  /** Id of this run in events and in the audit log. @default a random one */
  readonly run?: string | undefined;
  /** MCP of the task, from `openMcp`. @default none */
  readonly mcp?: RunMcp | null | undefined;
  /**
   * Decides about tool calls that need an approval; `sms`: the users of the registry that `mcp` follows.
   * @default none: the calls are denied
   */
  readonly approve?: ApprovalDecider | 'sms' | null | undefined;
  /** Answers elicitation requests of servers during tool calls (`client_features`). @default none: they are declined */
  readonly elicit?: ElicitationDecider | null | undefined;
  /** Name of the approver in the audit log. @default 'program' */
  readonly decidedBy?: string | undefined;
  /** User who submitted the run: the registry does not let that user approve its calls. @default unknown */
  readonly submittedBy?: string | null | undefined;
  /** @default none */
  readonly audit?: AuditSink | undefined;
  /** Receives every tool invocation. @default none */
  readonly events?: ToolEvents | undefined;
  /** Instruments that count what the guest does. @default none */
  readonly metrics?: Metrics | null | undefined;
  /** Makes spans of what the guest does. @default none */
  readonly tracing?: RunTracing | null | undefined;
  /** Takes every request to the model and its answer or error, a line of JSON each, without known secrets. @default none */
  readonly trace?: ((line: string) => void) | null | undefined;
  /**
   * Receives model output and tool calls live and in order, with the name of the session. Requests a stream from the model,
   * whether or not the guest does. @default none
   */
  readonly onModelEvent?: ((event: ModelEvent, session: string) => void) | null | undefined;
  /**
   * Records the run, so that it can be resumed or replayed: `{ file, mode, sync }`. @default none
   */
  readonly journal?: JournalOption | null | undefined;
  /**
   * Ends the guest with the reason `parked` during a long wait; the run resumes from its journal, which is required.
   * @default none: the guest stays in memory
   */
  readonly waits?: LongWaitsOption | null | undefined;
  /** Called with all MCP servers whose tools the run lacks, after each new one. @default a notice for each */
  readonly onDegraded?: ((degraded: readonly RunDegradation[]) => void | Promise<void>) | null | undefined;
  /** Called with the MCP servers that the run waits for, as text; null: the wait is over. @default none */
  readonly onServerWait?: ((text: string | null) => void) | null | undefined;
  /** Recorded values of clocks and entropy that the guest receives first. @default live values */
  readonly chance?: RecordedValues | null | undefined;
  /** Threads that the guest shares with others, if its module supports it. @default none: a dedicated thread */
  readonly threads?: GuestThreads | null | undefined;
  /** Namespace of the guest: guests of different namespaces share no thread. @default 'default' */
  readonly namespace?: string | undefined;
  /** Receives messages for the user who runs the guest, once per text. @default none */
  readonly onNotice?: ((text: string) => void) | undefined;
}

type Given<Options> = { readonly [Key in keyof Options]-?: Exclude<Options[Key], undefined> };

export type CompiledRunOptions = Given<
  Omit<RunOptions, 'wasm' | 'backend' | 'limits' | 'output' | 'journal' | 'signal'>
> & {
  readonly journal: CompiledJournal | null;
  /** Null: never aborted. */
  readonly signal: AbortSignal | null;
  readonly wasm: Uint8Array | Promise<Uint8Array>;
  readonly backend: FindBackend;
  readonly limits: Limits;
  readonly output: Readonly<Record<StandardStream, OutputTarget>>;
};

/** @throws ConfigError for an unknown or invalid option, RangeError for a limit */
export function compileRunOptions(options: RunOptions): CompiledRunOptions {
  const onNotice = options.onNotice ?? (() => {});
  const run = options.run ?? newRunId();
  const backend = compileBackendOption(options.backend, () => onNotice(libraryWords.stubUsed));
  const compiled: CompiledRunOptions = Object.freeze({
    wasm: typeof options.wasm === 'string' ? readModule(options.wasm) : options.wasm,
    backend: options.trace ? traced(backend, run, options.trace) : backend,
    args: options.args ?? ['guest'],
    env: options.env ?? {},
    limits: compileLimits(options.limits),
    output: compileOutput(options.output),
    stdin: options.stdin ?? (() => null),
    streams: options.streams ?? null,
    verbose: options.verbose ?? false,
    allowUnknownImports: options.allowUnknownImports ?? false,
    componentCache: options.componentCache ?? null,
    signal: options.signal ?? null,
    run,
    mcp: options.mcp ?? null,
    approve: options.approve ?? null,
    elicit: options.elicit ?? null,
    decidedBy: options.decidedBy ?? 'program',
    submittedBy: options.submittedBy ?? null,
    audit: options.audit ?? noAudit,
    events: options.events ?? new ToolEvents(),
    metrics: options.metrics ?? null,
    tracing: options.tracing ?? null,
    trace: options.trace ?? null,
    onModelEvent: options.onModelEvent ?? null,
    journal: compileJournal(options),
    waits: options.waits ?? null,
    onDegraded: options.onDegraded ?? null,
    onServerWait: options.onServerWait ?? null,
    chance: options.chance ?? null,
    threads: options.threads ?? null,
    namespace: options.namespace ?? 'default',
    onNotice,
  });
  refuseUnknownKeys('runGuest', options, compiled);
  return compiled;
}

function traced(find: FindBackend, run: string, write: (line: string) => void): FindBackend {
  const wrap = traceModel({ run, write });
  return async (name) => wrap(await find(name));
}

export interface TaskOptions extends Omit<RunOptions, 'backend' | 'mcp' | 'audit'> {
  /** The task's config: a file, or its content. @default an empty config */
  readonly task?: string | TaskInput | undefined;
  /** The host's config file. @default $SPEAR_CONFIG, else this user's own if there is one, else OPENAI_* variables */
  readonly config?: string | undefined;
  /** The model: a backend of the host's config by its name, or one of the program's own. @default the task's, else the config's */
  readonly backend?: string | BackendOption | undefined;
  /** Arguments after the module name and the arguments of the task's config. @default none */
  readonly args?: readonly string[] | undefined;
  /** Added to the environment of the task's config. @default none */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Override the limits of the task's config. @default see limitSpecs */
  readonly limits?: RunOptions['limits'];
  /** Directory for compiled components; null: none. @default the cache directory of this user */
  readonly componentCache?: string | null | undefined;
  /** Source of MCP server records; other fields default to the host's config. @default no registry */
  readonly mcp?: McpNodeOptions | undefined;
  /** Called when a wait begins; the returned function is called when the wait is over. @default none */
  readonly waiting?: Waiting | undefined;
  /** The audit log. @default [audit] of the host's config */
  readonly audit?: AuditSink | AuditLog | undefined;
}

const taskRunOptionNames = [
  ...([
    'args',
    'env',
    'output',
    'stdin',
    'streams',
    'signal',
    'run',
    'approve',
    'elicit',
    'decidedBy',
    'audit',
  ] as const),
  ...(['events', 'onModelEvent', 'journal'] as const),
] as const;

/** Options of one run of an open task. */
export type TaskRunOptions = Pick<TaskOptions, (typeof taskRunOptionNames)[number]>;

export const taskRunOptionKeys = Object.fromEntries(taskRunOptionNames.map((name) => [name, true]));

export const taskOptionKeys: OptionKeys<TaskOptions> = {
  wasm: true,
  task: true,
  config: true,
  backend: true,
  args: true,
  env: true,
  limits: true,
  output: true,
  stdin: true,
  streams: true,
  verbose: true,
  allowUnknownImports: true,
  componentCache: true,
  signal: true,
  run: true,
  mcp: true,
  approve: true,
  elicit: true,
  decidedBy: true,
  submittedBy: true,
  audit: true,
  events: true,
  metrics: true,
  tracing: true,
  trace: true,
  onModelEvent: true,
  journal: true,
  threads: true,
  namespace: true,
  waiting: true,
  chance: true,
  waits: true,
  onDegraded: true,
  onServerWait: true,
  onNotice: true,
};

export const journalModes = ['record', 'resume', 'replay'] as const;
export type JournalMode = (typeof journalModes)[number];

export interface JournalOption {
  readonly file: string;
  /**
   * `record`: a new file. `resume`: continues the recorded run, with its original args, env and limits. `replay`: runs the
   * guest against the recorded history, without any model, tool or input. @default 'record'
   */
  readonly mode?: JournalMode | undefined;
  /** What precedes an effect survives a crash of the process (`write`) or of the machine (`disk`). @default 'write' */
  readonly sync?: JournalSync | undefined;
  /**
   * Encrypts and decrypts the journal: a secret of at least 16 characters. With a key, a journal that was recorded without
   * one is not resumed. @default none; with runTask that of [journal] of the host's config
   */
  readonly key?: string | null | undefined;
  /** Path of the module, recorded for resume and replay. @default `wasm`, if it is a path */
  readonly module?: string | null | undefined;
  /** Recorded in the journal for resume. @default none */
  readonly command?: JsonObject | null | undefined;
  /**
   * The run was restored from a backup, and may have continued after the backup was made: the outcome of calls that are
   * missing in the journal is unknown. @default false
   */
  readonly restored?: boolean | undefined;
  /** Storage other than a file; errors then use `file` as its name. @default none */
  readonly place?: JournalStorage | null | undefined;
}

export type CompiledJournal = { readonly [Key in keyof JournalOption]-?: Exclude<JournalOption[Key], undefined> };

const journalKeys: OptionKeys<JournalOption> = {
  ...{ file: true, mode: true, sync: true, key: true, module: true, command: true, restored: true, place: true },
};

/** @throws ConfigError */
export function compileJournal({
  journal,
  wasm,
}: {
  readonly journal?: JournalOption | null | undefined;
  readonly wasm: unknown;
}): CompiledJournal | null {
  if (journal === undefined || journal === null) return null;
  refuseUnknownKeys('journal', journal, journalKeys);
  const {
    file,
    mode = 'record',
    sync = 'write',
    key = null,
    module = typeof wasm === 'string' ? wasm : null,
    command = null,
    restored = false,
    place = null,
  } = journal;
  if (typeof file !== 'string' || file === '') throw new ConfigError('journal.file: expected a file path');
  if (!journalModes.includes(mode)) throw new ConfigError(`journal.mode: expected ${journalModes.join(', ')}`);
  if (!journalSyncs.includes(sync)) throw new ConfigError(`journal.sync: expected ${journalSyncs.join(' or ')}`);
  if (key !== null && (typeof key !== 'string' || key.length < MIN_KEY_CHARS)) {
    throw new ConfigError(`journal.key: expected a string of at least ${MIN_KEY_CHARS} characters`);
  }
  const path = module === null ? null : resolve(module);
  return Object.freeze({ file, mode, sync, key, module: path, command, restored, place });
}

/** Names of the task options in the caller's terms (flags, fields), for messages. */
export interface TaskWords extends RegistryWords {
  readonly backend: string;
  /** Option with the approval rules of the node, if the config file has none. */
  readonly approvalRules: string;
  /** Service name in traces and metrics. */
  readonly service: string;
  /** Advice if no model is configured. */
  readonly stubUsed: string;
}

/** Names for callers of the library. */
export const libraryWords: TaskWords = {
  servers: 'servers',
  directory: 'directory',
  sms: 'sms',
  smsTokenFile: 'sms.tokenFile',
  smsCa: 'sms.ca',
  required: 'sms',
  refused: (problems) => problems.join('; '),
  backend: 'backend',
  approvalRules: 'approvalRules',
  service: 'spear',
  stubUsed: 'no model is configured: a stub answers; set "backend" to use a model',
};

/** The MCP options of the host's config. */
export function nodeOptions({ mcp, egress, keyVariables }: CompiledHostConfig): McpNodeOptions {
  const { allowHosts, allowAddresses } = egress;
  return {
    allowEnv: mcp.allowEnv,
    allowFiles: mcp.allowFiles,
    maxStalenessMs: mcp.maxStalenessMs,
    firstSnapshotMs: mcp.firstSnapshotMs,
    approvalRules: mcp.approvalRules as NonNullable<McpNodeOptions['approvalRules']>,
    keyVariables,
    stdio: mcp.stdio,
    egress: { ...(allowHosts === null ? {} : { allowHosts }), ...(allowAddresses === null ? {} : { allowAddresses }) },
  };
}

/** Creates a run id. Not a secret, so `node:crypto` is not loaded. */
export function newRunId(): string {
  const part = () =>
    Math.floor(Math.random() * 2 ** 32)
      .toString(36)
      .padStart(7, '0');
  return `run-${Date.now().toString(36)}-${part()}${part()}`;
}

/** MCP options of a node. */
export interface McpNodeOptions extends RegistryOptions {
  /** Allowed addresses of HTTP servers. @default any public address; this machine too, unless the records come from a registry */
  readonly egress?: EgressOptions | undefined;
  /** Whether stdio servers may run: as in their records, only in a sandbox, or never. @default 'sandboxed' for records of a registry, else 'allow' */
  readonly stdio?: StdioPolicy | null | undefined;
  /** Approval rules of the node, in the form of the config file; they precede the task's. @default none */
  readonly approvalRules?: readonly JsonObject[] | undefined;
  /** Directory for the persistent homes of stdio servers. @default the state directory of this user */
  readonly stateDir?: string | undefined;
  /** Receives events of connections. @default none */
  readonly log?: ((entry: McpLogEntry) => void) | undefined;
}

export interface McpOptions extends McpNodeOptions {
  /** The task's config with its `mcp.*` keys: a file, or its content. */
  readonly task: string | TaskInput;
  /** Instruments that count connections: `createMetrics(meterProvider)`. @default none */
  readonly metrics?: Metrics | null | undefined;
  /** Called when a wait for a server or a registry begins. @default none */
  readonly waiting?: Waiting | undefined;
  /** Receives messages for the user: an invalid record, an unreachable registry. @default none */
  readonly onNotice?: ((text: string) => void) | undefined;
}

const nodeOptionKeys: OptionKeys<McpNodeOptions> = {
  servers: true,
  directory: true,
  strict: true,
  sms: true,
  required: true,
  allowEnv: true,
  allowFiles: true,
  keyVariables: true,
  maxStalenessMs: true,
  firstSnapshotMs: true,
  egress: true,
  stdio: true,
  approvalRules: true,
  stateDir: true,
  log: true,
};

export const mcpOptionKeys: OptionKeys<McpOptions> = {
  ...nodeOptionKeys,
  task: true,
  metrics: true,
  onNotice: true,
  waiting: true,
};

/** @throws ConfigError */
export const refuseUnknownMcpKeys = (given: McpNodeOptions): void => refuseUnknownKeys('mcp', given, nodeOptionKeys);
