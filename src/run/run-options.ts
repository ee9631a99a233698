import type { Readable } from 'node:stream';
import type { ApprovalDecider } from '../agent/approvals/decider.ts';
import type { ModelEvent } from '../agent/chat/model-event.ts';
import { traceModel } from '../agent/chat/model-trace.ts';
import type { ElicitationDecider } from '../agent/mcp/client/elicitation/decider.ts';
import { ToolEvents } from '../agent/mcp/tool-events.ts';
import { refuseUnknownKeys } from '../config/option-keys.ts';
import { compileOutput, type OutputOption, type OutputTarget } from '../runtime/host/guest-output.ts';
import type { GuestThreads } from '../runtime/host/guest-threads.ts';
import type { RecalledValues, StandardStream } from '../runtime/port/guest-spec.ts';
import { compileLimits, type LimitName, type Limits } from '../runtime/port/limits.ts';
import { readModule } from '../runtime/wasm/read-module.ts';
import { type AuditSink, noAudit } from '../server/audit/event.ts';
import type { RunDegradation } from '../server/records/run.ts';
import type { Metrics } from '../server/telemetry/metrics.ts';
import type { RunTracing } from '../server/telemetry/span.ts';
import { type BackendOption, compileBackendOption, type FindBackend } from './choose-backend.ts';
import { type CompiledJournal, compileJournal, type JournalOption } from './journal-option.ts';
import { libraryWords } from './library-words.ts';
import type { LongWaitsOption } from './long-waits.ts';
import { newRunId } from './run-id.ts';
import type { RunMcp } from './run-mcp.ts';
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
  readonly chance?: RecalledValues | null | undefined;
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
