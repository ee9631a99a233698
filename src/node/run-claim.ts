import { Readable } from 'node:stream';
import { totalTokens } from '../agent/chat/budgeted-backend.ts';
import type { ModelEvent } from '../agent/chat/model-event.ts';
import { ToolEvents } from '../agent/mcp/tool-events.ts';
import { EVERY_SERVER } from '../agent/policy/decision.ts';
import { stopText } from '../agent/policy/stops.ts';
import { errorText } from '../base/error-text.ts';
import { runGuest } from '../run/run-guest.ts';
import type { StreamListener } from '../run/streams/stream-listener.ts';
import { isResumable } from '../runtime/durable/journal.ts';
import { JournalError } from '../runtime/durable/journal-error.ts';
import type { GuestThreads } from '../runtime/host/guest-threads.ts';
import type { RunResult } from '../runtime/host/run-result.ts';
import { type AttemptEvents, bytesJson } from '../server/queue/run-events.ts';
import type { Claim, ParkedFor, RunEnding } from '../server/queue/run-queue.ts';
import { MAX_RESULT_BYTES, type RunCost } from '../server/records/run.ts';
import type { StopRecord } from '../server/records/stop.ts';
import { taskId } from '../server/records/task.ts';
import type { Metrics } from '../server/telemetry/metrics.ts';
import type { RunTracing } from '../server/telemetry/span.ts';
import { faultOf, retryOf } from './host-failure.ts';
import { addTokens, type EarlierAttempt, type RunJournals } from './run-journals.ts';
import type { RunMarks } from './run-marks.ts';
import type { TaskRuntime } from './task-runtimes.ts';
import type { TokenBudgets } from './token-budgets.ts';

/** Why a guest is ended before its end. */
export type StopReason = 'cancelled' | 'draining' | 'lost' | StoppedBy;

/** A stop of the registry applies to the run. */
export interface StoppedBy {
  readonly stop: StopRecord;
}

/**
 * Outcome of an attempt: the run has ended, is parked, or returns to the queue. `requests`: its approval requests.
 * `pause`: the node starts no run for a while. `holds`: the node starts no run of this namespace for a while.
 */
export type AttemptOutcome =
  | { readonly kind: 'ended'; readonly ending: RunEnding }
  | { readonly kind: 'parked'; readonly until: ParkedFor; readonly requests: readonly string[] }
  | {
      readonly kind: 'again';
      readonly counts: boolean;
      readonly pause: boolean;
      readonly holds?: 'namespace';
      readonly why: string;
      /** The file whose input/output error (EIO) ended the attempt. @default none */
      readonly failedFile?: string;
    };

export interface AttemptOptions {
  readonly claim: Claim;
  readonly runtime: TaskRuntime;
  readonly input: Uint8Array;
  readonly journals: RunJournals;
  readonly events: AttemptEvents;
  readonly metrics: Metrics;
  readonly tracing: RunTracing | null;
  readonly componentCache: string | null;
  /** For tasks whose guests share threads. */
  readonly threads: GuestThreads;
  readonly streamModels: boolean;
  readonly budgets: TokenBudgets;
  /** Where clients of its user streams come from. */
  readonly streams: StreamListener;
  /** Who decides about calls that need an approval; null: nobody. */
  readonly approve: 'sms' | null;
  readonly parkAfterMs: number;
  readonly marks: RunMarks;
  /** Its reason is a {@link StopReason}. */
  readonly signal: AbortSignal;
  readonly onNotice: (text: string) => void;
}

/** What the journal of a run that came to its end says; null: it did not. */
export function endedEarlier(earlier: EarlierAttempt | null): RunEnding | null {
  if (earlier?.end == null || isResumable(earlier.end)) return null;
  const { reason, exit, message } = earlier.end;
  return endingOf({ reason, code: exit, message }, earlier.stdout, earlier.cost);
}

/** One attempt at a run: from its journal's beginning, or from where the attempt before it came to. */
export async function attemptRun(options: AttemptOptions, earlier: EarlierAttempt | null): Promise<AttemptOutcome> {
  const { claim, runtime, journals, events, marks, signal } = options;
  const { run, attempt } = claim;
  const { task } = runtime;
  const { noServers } = runtime;
  if (noServers !== null) await marks.onDegraded([{ server: EVERY_SERVER, reason: noServers.reason }]);
  if (noServers?.isRequired) {
    const exit = { reason: 'required_server', code: null, message: noServers.reason };
    return { kind: 'ended', ending: { ...endingOf(exit, new Uint8Array(), null), degraded: marks.degraded ?? [] } };
  }
  const output = new ResultBytes(earlier?.stdout ?? null);
  const tooLarge = new AbortController();
  const toolEvents = new ToolEvents();
  toolEvents.subscribe((call) => events.emit('tool', { ...call, run: undefined }));
  const journal = journals.option(claim, earlier === null ? 'record' : 'resume');
  let parked: Extract<AttemptOutcome, { kind: 'parked' }> | null = null;
  let result: RunResult;
  try {
    result = await runGuest({
      wasm: runtime.wasm,
      run: run.id,
      args: [task.name, ...task.args],
      env: { ...task.env, SPEAR_TASK: taskId(task), SPEAR_RUN_ID: run.id },
      limits: runtime.limits,
      backend: options.budgets.forRun(
        { task, submittedBy: run.submitted_by, spentBefore: totalTokens(earlier?.cost.tokens ?? {}) },
        runtime.backend,
      ),
      mcp: runtime.mcp,
      audit: runtime.audit,
      metrics: options.metrics,
      tracing: options.tracing,
      events: toolEvents,
      componentCache: options.componentCache,
      threads: task.isolation === 'shared' ? options.threads : null,
      namespace: task.namespace,
      streams: options.streams,
      stdin: () => Readable.from([options.input.subarray(earlier?.inputRead ?? 0)]),
      output: (stream, bytes) => {
        events.emit(stream === 'stdout' ? 'output' : 'log', bytesJson(bytes));
        if (stream === 'stdout' && !output.add(bytes)) tooLarge.abort();
      },
      onModelEvent: options.streamModels ? (event, session) => events.emit('model', shownEvent(event, session)) : null,
      journal,
      approve: options.approve,
      submittedBy: run.first_submitted_by ?? run.submitted_by,
      waits: {
        parkAfterMs: options.parkAfterMs,
        onWaiting: marks.onWaiting,
        onPark: (until, requests) => {
          parked = { kind: 'parked', until, requests };
        },
        parkedBy: (reason) => {
          const stop = stopIn(reason);
          return stop === null || stop.effect === 'cancel' ? null : untilLifted(stop);
        },
      },
      onDegraded: marks.onDegraded,
      onServerWait: marks.onServerWait,
      signal: AbortSignal.any([signal, tooLarge.signal]),
      onNotice: options.onNotice,
    });
  } catch (error) {
    const retry = retryOf(faultOf(error));
    if (retry !== null) return retry;
    // Neither the guest's fault nor a reason to count: the disk may have room again later.
    const isJournal = error instanceof JournalError;
    return { kind: 'again', counts: !isJournal, pause: isJournal, why: errorText(error) };
  }
  const stop = signal.aborted ? stopIn(signal.reason) : null;
  if (stop !== null && stop.effect !== 'cancel' && isResumable(result)) {
    return parked ?? { kind: 'parked', until: untilLifted(stop), requests: [] };
  }
  if (result.reason === 'parked' && parked !== null) {
    // Whoever wants it to end does not want it to wait.
    if (signal.reason !== 'cancelled' && signal.reason !== 'lost' && stop === null) return parked;
    result = { ...result, reason: 'interrupted' };
  }
  const cost = attempt === 1 && earlier === null ? costOf(result) : await costInJournal(options);
  const file = result.reason === 'journal' ? journal.file : null;
  const retry = retryOf({ code: result.systemError, file, message: String(result.message) });
  if (retry !== null) return retry;
  const outcome = outcomeOf(result, { stop: signal.aborted ? (signal.reason as StopReason) : null, output, cost });
  const { degraded } = marks;
  if (outcome.kind !== 'ended' || degraded === undefined) return outcome;
  return { ...outcome, ending: { ...outcome.ending, degraded } };
}

/** The stop that a guest was ended for; null: another reason. */
function stopIn(reason: unknown): StopRecord | null {
  return typeof reason === 'object' && reason !== null && 'stop' in reason ? (reason as StoppedBy).stop : null;
}

const untilLifted = (stop: StopRecord): ParkedFor => ({ kind: 'stop', stop: stop.stop_id, reason: stop.reason });

function outcomeOf(
  { reason, exitCode, message, isolation }: RunResult,
  {
    stop,
    output,
    cost,
  }: { readonly stop: StopReason | null; readonly output: ResultBytes; readonly cost: RunCost | null },
): AttemptOutcome {
  const end = (exit: RunEnding['exit']): AttemptOutcome => ({
    kind: 'ended',
    ending: endingOf(exit, output.bytes(), cost),
  });
  if (reason === 'interrupted') {
    if (stop === 'cancelled') {
      return end({ reason: 'cancelled', code: null, message: 'the run was cancelled while running' });
    }
    if (stop !== null && typeof stop === 'object') {
      return end({ reason: 'cancelled', code: null, message: stopText(stop.stop) });
    }
    if (stop !== null) return { kind: 'again', counts: stop === 'lost', pause: false, why: stop };
    return end({
      reason: 'result',
      code: null,
      message: `the output of the run has more than ${MAX_RESULT_BYTES} bytes`,
    });
  }
  // The guest that held its thread gets one of its own from now on, so this has an end.
  if (reason === 'lost') {
    const again = { kind: 'again', counts: false, pause: false, why: String(message) } as const;
    return isolation.kind === 'none' ? { ...again, holds: 'namespace' } : again;
  }
  const isLimit = reason === 'journal' && String(message).includes('limits.journal_bytes');
  if (reason === 'internal' || (reason === 'journal' && !isLimit)) {
    return { kind: 'again', counts: reason === 'internal', pause: true, why: String(message) };
  }
  return end({ reason, code: exitCode, message });
}

function endingOf(exit: RunEnding['exit'], result: Uint8Array, cost: RunCost | null): RunEnding {
  const status =
    exit.reason === 'cancelled' ? 'cancelled' : exit.reason === 'exit' && exit.code === 0 ? 'succeeded' : 'failed';
  return { status, exit, cost, result: result.byteLength > MAX_RESULT_BYTES ? new Uint8Array() : result };
}

/** A run that is lost has none that could be told here. */
async function costInJournal({ claim, journals, signal }: AttemptOptions): Promise<RunCost | null> {
  if (signal.aborted && signal.reason === ('lost' satisfies StopReason)) return null;
  return (await journals.earlier(claim))?.cost ?? null;
}

function costOf({ chat }: RunResult): RunCost {
  const tokens: Record<string, number> = {};
  addTokens(tokens, chat.usage);
  return { model_calls: chat.iterations, tool_calls: chat.toolCalls, tokens };
}

const shownEvent = (event: ModelEvent, session: string) => ({ session, ...event });

/** What a guest wrote to stdout, as much as there may be. */
class ResultBytes {
  readonly #chunks: Uint8Array[] = [];
  #bytes = 0;

  constructor(earlier: Uint8Array | null) {
    if (earlier !== null) this.add(earlier);
  }

  /** False: that is too much. */
  add(bytes: Uint8Array): boolean {
    this.#bytes += bytes.byteLength;
    if (this.#bytes > MAX_RESULT_BYTES) return false;
    this.#chunks.push(new Uint8Array(bytes));
    return true;
  }

  bytes(): Uint8Array {
    return Buffer.concat(this.#chunks);
  }
}
