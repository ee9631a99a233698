import { resolve } from 'node:path';
import type { Readable } from 'node:stream';
import type { ApprovalDecider } from '../agent/approvals/request.ts';
import type { ModelEvent } from '../agent/chat/model-event.ts';
import { traceModel } from '../agent/chat/model-trace.ts';
import type { ElicitationDecider } from '../agent/mcp/client/elicitation/question.ts';
import { ToolEvents } from '../agent/mcp/tool-events.ts';
import type { JsonObject } from '../base/json.ts';
import type { Waiting } from '../base/listeners.ts';
import { ConfigError } from '../config/config-error.ts';
import type { CompiledHostConfig } from '../config/host/host-config.ts';
import { type OptionKeys, refuseUnknownKeys } from '../config/option-keys.ts';
import { MIN_KEY_CHARS } from '../config/secret-reference.ts';
import type { TaskInput } from '../config/task-config.ts';
import { type JournalSync, journalSyncs } from '../runtime/durable/journal.ts';
import type { JournalStorage } from '../runtime/durable/journal-file.ts';
import { compileOutput, type OutputOption, type OutputTarget } from '../runtime/host/guest-stdio.ts';
import type { GuestThreads } from '../runtime/host/guest-threads.ts';
import type { RecordedValues, StandardStream } from '../runtime/port/guest-spec.ts';
import { compileLimits, type LimitName, type Limits } from '../runtime/port/limits.ts';
import { readModule } from '../runtime/wasm/read-module.ts';
import { type AuditSink, noAudit } from '../server/audit/event.ts';
import type { AuditLog } from '../server/audit/log.ts';
import type { EgressOptions } from '../server/egress/egress.ts';
import type { RunDegradation } from '../server/records/run.ts';
import type { StdioPolicy } from '../server/records/server.ts';
import type { Metrics } from '../server/telemetry/metrics.ts';
import type { RunTracing } from '../server/telemetry/span.ts';
import { type BackendOption, compileBackendOption, type FindBackend } from './choose-backend.ts';
import type { LongWaitsOption } from './long-waits.ts';
import type { RunMcp } from './mcp-service.ts';
import type { RegistryOptions, RegistryWords } from './open-registry.ts';
import type { McpLogEntry } from './registry-servers.ts';
import type { StreamListener } from './streams/stream-listener.ts';

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
  /** Where clients of the guest's user streams come from. @default none: guests are told ENOTCONN */
  readonly streams?: StreamListener | null | undefined;
  /** Whether debug and trace lines of the guest are written. @default false */
  readonly verbose?: boolean | undefined;
  /** Whether imports that this host does not have link, to ENOSYS. @default false */
  readonly allowUnknownImports?: boolean | undefined;
  /** The directory where compiled components are kept, this user's alone; null: they are compiled on every run. @default null */
  readonly componentCache?: string | null | undefined;
  /** Ends the guest. @default never */
  readonly signal?: AbortSignal | undefined;
  /** The name of this run in events and in the audit trail. @default a random one */
  readonly run?: string | undefined;
  /** MCP as the task has it: what `openMcp` opened. @default none */
  readonly mcp?: RunMcp | null | undefined;
  /**
   * Decides about calls of tools that need an approval; `sms`: the people of the registry that `mcp` follows.
   * @default nobody: they are denied
   */
  readonly approve?: ApprovalDecider | 'sms' | null | undefined;
  /** Answers what servers ask during calls of their tools (`client_features`). @default nobody: they are told no */
  readonly elicit?: ElicitationDecider | null | undefined;
  /** Who that is, in the audit trail. @default 'program' */
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
   * Told what the model says and which tools it calls, while it happens and in this order, by the name of the session. It
   * asks the model for a stream, whether or not the guest does. @default nobody
   */
  readonly onModelEvent?: ((event: ModelEvent, session: string) => void) | null | undefined;
  /**
   * Records what the run does and is told, so that it can be resumed or replayed: `{ file, mode, sync }`. @default none
   */
  readonly journal?: JournalOption | null | undefined;
  /**
   * Gives the guest up while it waits for long, with the reason `parked`: it goes on from its journal, which it needs to
   * have. @default none: it is held
   */
  readonly waits?: LongWaitsOption | null | undefined;
  /** Called with all MCP servers whose tools the run lacks, after each new one. @default a notice for each */
  readonly onDegraded?: ((degraded: readonly RunDegradation[]) => void | Promise<void>) | null | undefined;
  /** Called with the MCP servers that the run waits for, as text; null: it waits for none any more. @default none */
  readonly onServerWait?: ((text: string | null) => void) | null | undefined;
  /** What the guest's clocks and dice give first, before they go on from there. @default what the system gives */
  readonly chance?: RecordedValues | null | undefined;
  /** Threads that the guest shares with others, if its module can be shared. @default none: it gets one of its own */
  readonly threads?: GuestThreads | null | undefined;
  /** Whose guest it is: guests of two namespaces share no thread. @default 'default' */
  readonly namespace?: string | undefined;
  /** Something the person who runs the guest should know, once per text. @default nobody is told */
  readonly onNotice?: ((text: string) => void) | undefined;
}

type Given<Options> = { readonly [Key in keyof Options]-?: Exclude<Options[Key], undefined> };

export type CompiledRunOptions = Given<
  Omit<RunOptions, 'wasm' | 'backend' | 'limits' | 'output' | 'journal' | 'signal'>
> & {
  readonly journal: CompiledJournal | null;
  /** Null: nothing ends it. */
  readonly signal: AbortSignal | null;
  readonly wasm: Uint8Array | Promise<Uint8Array>;
  readonly backend: FindBackend;
  readonly limits: Limits;
  readonly output: Readonly<Record<StandardStream, OutputTarget>>;
};

/** @throws ConfigError for an option that is not known or cannot be used, RangeError for a limit */
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
  /** The task's config: a file, or what it would hold. @default a task without any */
  readonly task?: string | TaskInput | undefined;
  /** The host's config file. @default $SPEAR_CONFIG, else this user's own if there is one, else OPENAI_* variables */
  readonly config?: string | undefined;
  /** The model: a backend of the host's config by its name, or one of the program's own. @default the task's, else the config's */
  readonly backend?: string | BackendOption | undefined;
  /** What follows the name of the module and the task's own arguments. @default nothing */
  readonly args?: readonly string[] | undefined;
  /** Added to the task's own. @default nothing */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** They win over the task's own. @default see limitSpecs */
  readonly limits?: RunOptions['limits'];
  /** Where compiled components are kept; null: nowhere. @default this user's own cache, as the commands have it */
  readonly componentCache?: string | null | undefined;
  /** Where the records of MCP servers come from; what it leaves out of the rest is as the host's config says. @default no registry */
  readonly mcp?: McpNodeOptions | undefined;
  /** Called when a wait begins; the returned function is called when the wait is over. @default none */
  readonly waiting?: Waiting | undefined;
  /** The trail, or a log that gives one. @default what [audit] of the host's config says */
  readonly audit?: AuditSink | AuditLog | undefined;
}

/** What one run of an open task may have of its own. */
export type TaskRunOptions = Pick<
  TaskOptions,
  | 'args'
  | 'env'
  | 'output'
  | 'stdin'
  | 'streams'
  | 'signal'
  | 'run'
  | 'approve'
  | 'elicit'
  | 'decidedBy'
  | 'audit'
  | 'events'
  | 'onModelEvent'
  | 'journal'
>;

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

export const taskRunOptionKeys: OptionKeys<TaskRunOptions> = {
  args: true,
  env: true,
  output: true,
  stdin: true,
  streams: true,
  signal: true,
  run: true,
  approve: true,
  elicit: true,
  decidedBy: true,
  audit: true,
  events: true,
  onModelEvent: true,
  journal: true,
};

export const journalModes = ['record', 'resume', 'replay'] as const;
export type JournalMode = (typeof journalModes)[number];

export interface JournalOption {
  readonly file: string;
  /**
   * `record`: a new file. `resume`: the run that it has goes on where it was; args, env and limits are those it began
   * with. `replay`: the run is lived through again, without any model, tool or input. @default 'record'
   */
  readonly mode?: JournalMode | undefined;
  /** `write`: what precedes an effect survives the end of this process; `disk`: that of the machine. @default 'write' */
  readonly sync?: JournalSync | undefined;
  /**
   * Encrypts what the journal holds, or opens it: a secret text of at least 16 characters. With a key, a journal that
   * was begun without one is not resumed. @default none; with runTask that of [journal] of the host's config
   */
  readonly key?: string | null | undefined;
  /** Where the module is, for whoever resumes or replays. @default `wasm`, where that is a path */
  readonly module?: string | null | undefined;
  /** Kept in the journal for whoever resumes. @default nothing */
  readonly command?: JsonObject | null | undefined;
  /**
   * The run comes from a backup, and may have continued after the backup was made: the outcome of a call that the journal
   * does not have is unknown. @default false
   */
  readonly restored?: boolean | undefined;
  /** Where it is kept instead of a file; `file` is then what errors call it. @default none */
  readonly place?: JournalStorage | null | undefined;
}

export type CompiledJournal = { readonly [Key in keyof JournalOption]-?: Exclude<JournalOption[Key], undefined> };

const keys = {
  file: true,
  mode: true,
  sync: true,
  key: true,
  module: true,
  command: true,
  restored: true,
  place: true,
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
  refuseUnknownKeys('journal', journal, keys);
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
  return Object.freeze({
    file,
    mode,
    sync,
    key,
    module: module === null ? null : resolve(module),
    command,
    restored,
    place,
  });
}

/** What the options of a task are called by whoever gives them; for messages. */
export interface TaskWords extends RegistryWords {
  readonly backend: string;
  /** What names the rules of the node, where the config file does not. */
  readonly approvalRules: string;
  /** What a process is called where its traces and metrics go. */
  readonly service: string;
  /** What to do about a model that is none. */
  readonly stubUsed: string;
}

/** The names that a program uses. */
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

/** What the host's config says of MCP, as options. */
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

/** A name for a run in events and the trail. Not a secret, so `node:crypto` is not loaded for it. */
export function newRunId(): string {
  const part = () =>
    Math.floor(Math.random() * 2 ** 32)
      .toString(36)
      .padStart(7, '0');
  return `run-${Date.now().toString(36)}-${part()}${part()}`;
}

/** What this node lets MCP use, and who is told of it. */
export interface McpNodeOptions extends RegistryOptions {
  /** Where HTTP servers may be. @default any public address; this machine too, unless the records come from an SMS */
  readonly egress?: EgressOptions | undefined;
  /** What becomes of stdio servers: run as their records say, never without a sandbox, or not at all. @default 'sandboxed' for records of an SMS, else 'allow' */
  readonly stdio?: StdioPolicy | null | undefined;
  /** The node's rules about calls of tools, in the form of the config file; they come before the task's. @default none */
  readonly approvalRules?: readonly JsonObject[] | undefined;
  /** Where homes of stdio servers live on between runs. @default this user's own, as the commands have it */
  readonly stateDir?: string | undefined;
  /** Receives events of connections. @default none */
  readonly log?: ((entry: McpLogEntry) => void) | undefined;
}

export interface McpOptions extends McpNodeOptions {
  /** The task's config, whose `mcp.*` keys say what its guests get: a file, or what it would hold. */
  readonly task: string | TaskInput;
  /** Instruments that count connections: `createMetrics(meterProvider)`. @default none */
  readonly metrics?: Metrics | null | undefined;
  /** Told when a server or a registry is waited for. @default nobody is */
  readonly waiting?: Waiting | undefined;
  /** Something that somebody should know: a record that is left out, a registry that is away. @default nobody is told */
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
