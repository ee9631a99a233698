import { Worker } from 'node:worker_threads';
import { ModuleError, type ModuleProblem } from '../abi/guest-module.ts';
import type { JsonObject } from '../base/json.ts';
import { describeComponent } from '../load/component/component-stages.ts';
import { guestNotices } from '../load/guest-notices.ts';
import { type Prepared, prepare } from '../load/prepare.ts';
import type { GuestSpec, StandardStream } from '../protocol/guest-spec.ts';
import type { Limits } from '../protocol/limits.ts';
import { disabledTask } from '../protocol/policy-layers.ts';
import { type GuestReport, type HostReply, PortViolation, parseGuestMessage } from '../protocol/port.ts';
import { auditGuestStart } from './audit-guest.ts';
import { ChatService } from './chat-service.ts';
import { GuestOutput } from './guest-output.ts';
import { McpService } from './mcp-service.ts';
import { NativeTools } from './native-tools.ts';
import { RunMetrics } from './run-metrics.ts';
import { type CompiledRunOptions, compileRunOptions, type RunOptions } from './run-options.ts';
import { StdinReader } from './stdin-reader.ts';

export type RunReason = 'exit' | 'deadline' | 'trap' | 'interrupted' | 'memory' | 'module' | 'internal';

export interface RunResult {
  readonly reason: RunReason;
  /** The guest's own exit code; null unless the reason is `exit`. */
  readonly exitCode: number | null;
  /** What went wrong, for a person; null if nothing did. */
  readonly message: string | null;
  /** What the module has wrong, where a remedy is known; null otherwise. */
  readonly problem: ModuleProblem | null;
  /** Frames of the guest, innermost first; empty unless it trapped. */
  readonly stack: string;
  readonly durations: { readonly loadMs: number; readonly runMs: number; readonly totalMs: number };
  /** How often the guest made each hostcall. */
  readonly hostcalls: Readonly<Record<string, number>>;
  readonly chat: {
    readonly sends: number;
    readonly iterations: number;
    readonly toolCalls: number;
    /** Sums of what the model's answers say, by the provider's own names (`prompt_tokens`). */
    readonly usage: JsonObject;
  };
  readonly droppedLogLines: number;
}

type Ending = Pick<RunResult, 'reason' | 'exitCode' | 'message' | 'problem' | 'stack'>;

const GUEST = 0;
const GUEST_HEAP_MB = 512; // JavaScript and wasm-gc objects of the guest thread; linear memory is bounded elsewhere

/** Next to this file: TypeScript in a checkout, JavaScript in the package. */
const workerUrl = new URL(
  import.meta.url.endsWith('.ts') ? '../guest/worker.ts' : './guest-worker.cjs',
  import.meta.url,
);

/**
 * Runs one guest on a thread of its own, from its bytes to its end. Never throws for what the guest does.
 * @throws ConfigError, RangeError for options; whatever a callback for its output throws
 */
export async function runGuest(given: RunOptions): Promise<RunResult> {
  const compiled = compileRunOptions(given);
  const metrics = compiled.metrics && new RunMetrics(compiled, compiled.metrics, () => reply(0, ['count']));
  const options = metrics?.options ?? compiled;
  const { approve, decidedBy, run, audit, events } = options;
  const approvalTimeoutMs = options.limits.approval_timeout_ms;
  const mcpOfRun = options.mcp?.forRun({ run, audit, events, approve, decidedBy, approvalTimeoutMs }) ?? null;
  const started = performance.now();
  auditGuestStart(audit, run, options.args[0] ?? '', options.wasm);
  const output = new GuestOutput(options.output);
  const spec: GuestSpec = {
    args: options.args,
    env: options.env,
    limits: options.limits,
    mcpTask: mcpOfRun?.guest.task ?? disabledTask,
    verbose: options.verbose,
    output: output.fds,
    outputUnderway: output.underway,
  };
  // The thread boots while the module compiles. It gets an empty environment: the host's may hold keys.
  const worker = new Worker(workerUrl, {
    workerData: spec,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: GUEST_HEAP_MB },
  });
  const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  const stdin = new StdinReader(options.stdin);
  let report: GuestReport | undefined;
  let enteredAt: number | undefined;
  let failed: { readonly error: unknown } | undefined;
  const loading = new AbortController();

  const reply = (call: number, message: HostReply, transfer: ArrayBuffer[] = []) =>
    worker.postMessage([GUEST, call, ...message], transfer);
  const native = new NativeTools(run, audit, events);
  const chat = new ChatService({
    backend: options.backend,
    observe: (session) => ({
      ...native.observe(session),
      failed: (error) =>
        options.onNotice(`a send failed inside the host: ${error instanceof Error ? error.stack : error}`),
    }),
    tools: mcpOfRun?.guest ?? null,
    reply,
  });
  const mcp = new McpService(mcpOfRun?.guest ?? null, reply);

  const ending = await new Promise<Ending>((resolve) => {
    const deadline = setTimeout(() => resolve(outOfTime(options.limits)), options.limits.timeout_ms);
    const interrupted = () => resolve(ended('interrupted', 'the guest was interrupted'));
    if (options.signal.aborted) interrupted();
    options.signal.addEventListener('abort', interrupted, { once: true });
    exited.then(() => {
      clearTimeout(deadline);
      options.signal.removeEventListener('abort', interrupted);
      resolve(report ? fromReport(report) : ended('internal', 'the guest thread ended without a word'));
    });

    worker.on('error', (error: NodeJS.ErrnoException) => resolve(threadFailed(error)));
    worker.on('messageerror', () => resolve(ended('internal', 'a message of the guest thread could not be read')));
    worker.on('message', (raw: unknown) => {
      try {
        receive(raw);
      } catch (error) {
        resolve(ended('internal', (error as Error).message));
      }
    });

    function receive(raw: unknown): void {
      const message = parseGuestMessage(raw);
      const call = message[1];
      switch (message[3]) {
        case 'send':
          chat.send(call, message[4], message[5], message[6]);
          return;
        case 'cancel':
          mcp.cancel(call);
          chat.cancel(call);
          return;
        case 'tool_result':
          chat.toolResult(call, message[4], message[5], message[6]);
          return;
        case 'close_session':
          chat.closeSession(call, message[4]);
          return;
        case 'stdin':
          stdin.read(message[4]).then((chunk) => reply(call, ['stdin', chunk]));
          return;
        case 'mcp_open':
        case 'mcp_list':
        case 'mcp_call':
        case 'mcp_registry':
          mcp.receive(message);
          return;
        case 'counted':
          metrics?.counted(message[4]);
          return;
        case 'output':
          takeOutput(message[4], message[5]);
          return;
        case 'notice':
          options.onNotice(message[4]);
          return;
        case 'ended':
          report = message[4];
          resolve(fromReport(report));
      }
    }

    /** Also what comes after the end: a thread that was ended has posted more than was read by then. */
    function takeOutput(stream: StandardStream, bytes: Uint8Array): void {
      if (failed !== undefined) return;
      try {
        output.receive(stream, bytes);
      } catch (error) {
        if (error instanceof PortViolation) throw error;
        failed = { error };
        resolve(ended('internal', 'the output could not be handed over'));
      }
    }

    load(options, loading.signal).then(
      (prepared) => {
        enteredAt = performance.now();
        if (prepared.kind === 'component' && options.verbose) options.onNotice(describeComponent(prepared));
        for (const notice of guestNotices(prepared, options.args)) options.onNotice(notice);
        reply(0, startMessage(prepared));
      },
      (error: unknown) => resolve(notLoaded(error as Error)),
    );
  });

  const endedAt = performance.now();
  loading.abort();
  await worker.terminate();
  await exited;
  output.finish();
  stdin.close();
  await mcp.close();
  await chat.close();
  mcpOfRun?.close();
  metrics?.ended(ending.reason, report?.hostcalls ?? {});
  const { reason: status, exitCode } = ending;
  const totalMs = Math.round(performance.now() - started);
  audit.write(run, { event: 'guest.ended', status, exit_code: exitCode, duration_ms: totalMs });
  if (failed !== undefined) throw failed.error;
  return {
    ...ending,
    durations: {
      loadMs: Math.round((enteredAt ?? endedAt) - started),
      runMs: Math.round(endedAt - (enteredAt ?? endedAt)),
      totalMs,
    },
    hostcalls: report?.hostcalls ?? {},
    chat: chat.totals,
    droppedLogLines: report?.droppedLogLines ?? 0,
  };
}

function startMessage(prepared: Prepared): HostReply {
  if (prepared.kind === 'core') return ['start', prepared.module, prepared.unknownImports];
  const { glue, coreModules, imports, entry, lane } = prepared;
  return ['start_component', { glue, coreModules, imports, entry, fastLane: lane.kind === 'fast' }];
}

async function load(options: CompiledRunOptions, signal: AbortSignal) {
  return prepare(await options.wasm, { ...options, signal });
}

function ended(reason: RunReason, message: string): Ending {
  return { reason, exitCode: null, message, problem: null, stack: '' };
}

function notLoaded(error: Error): Ending {
  if (!(error instanceof ModuleError)) return ended('internal', error.message);
  return { ...ended('module', error.message), problem: error.problem };
}

function outOfTime(limits: Limits): Ending {
  return ended('deadline', `the guest ran longer than limits.timeout_ms = ${limits.timeout_ms}`);
}

function threadFailed(error: NodeJS.ErrnoException): Ending {
  if (error.code === 'ERR_WORKER_OUT_OF_MEMORY') {
    return ended('memory', `the guest's objects took more than ${GUEST_HEAP_MB} MiB`);
  }
  return ended('internal', `the guest thread failed: ${error.message}`);
}

function fromReport({ ending }: GuestReport): Ending {
  if (ending.kind === 'exit') return { reason: 'exit', exitCode: ending.code, message: null, problem: null, stack: '' };
  if (ending.kind === 'trap') return { ...ended('trap', ending.message), stack: ending.stack };
  return ended('module', ending.message);
}
