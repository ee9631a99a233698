import { Readable } from 'node:stream';
import type { ApprovalConnection } from '../agent/approvals/client.ts';
import { totalTokens } from '../agent/chat/budgeted-backend.ts';
import { ToolEvents } from '../agent/mcp/tool-events.ts';
import { EVERY_SERVER } from '../agent/policy/decision.ts';
import { stopText } from '../agent/policy/stops.ts';
import { errorText } from '../base/errors.ts';
import type { NodeLimits } from '../config/limits.ts';
import { runGuest } from '../run/run-guest.ts';
import type { StreamListener } from '../run/streams/stream-listener.ts';
import { isResumable } from '../runtime/durable/journal.ts';
import { JournalError } from '../runtime/durable/journal-error.ts';
import type { GuestThreads } from '../runtime/host/guest-threads.ts';
import type { RunResult } from '../runtime/host/run-result.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import { type AttemptEvents, bytesJson } from '../server/queue/run-events.ts';
import type { Claim, ParkedFor, RunEnding } from '../server/queue/run-queue.ts';
import { MAX_RESULT_BYTES, type RunCost } from '../server/records/run.ts';
import type { StopRecord } from '../server/records/stop.ts';
import { type TaskRevision, taskId } from '../server/records/task.ts';
import type { Metrics } from '../server/telemetry/metrics.ts';
import type { RunTracing } from '../server/telemetry/span.ts';
import { FailedFiles, failedFileText, faultOf, retryOf } from './host-failure.ts';
import type { NodeStops } from './node-stops.ts';
import type { NodeTasks } from './node-tasks.ts';
import type { ParkedRuns } from './parked-runs.ts';
import type { RegistryReadiness } from './registry-readiness.ts';
import type { RunEngine } from './run-engine.ts';
import { addTokens, type EarlierAttempt } from './run-journals.ts';
import { RunMarks } from './run-marks.ts';
import type { RunStreams } from './run-streams.ts';
import type { RunTraces } from './run-traces.ts';
import type { TaskRuntime, TaskRuntimes } from './task-runtimes.ts';
import type { TokenBudgets } from './token-budgets.ts';

/*
 * One attempt at a claimed run: from the claim to its outcome. The dispatcher stores the outcome in the queue.
 *
 * Invariants
 * - A run whose journal has a final end gets that outcome; no guest is started for it.
 * - A run whose journal is damaged or cannot be decrypted is dead: a new attempt would repeat its effects.
 * - Only an attempt that may have been the guest's fault counts toward `retry.max_attempts`. A drained node, a full disk
 *   or exhausted descriptors do not count.
 * - Events of an attempt have higher ids than those of all earlier activations of the run.
 *
 * Attempts of different runs are concurrent and share the NodeContext; attempts of one run never overlap on a node, since
 * the queue has one claim per run. Not handled here: leases and repeated writes of outcomes (dispatcher.ts).
 */

/** Why a guest is stopped before it ends. */
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

/** Services of a node that all its runs share. */
export interface NodeContext {
  readonly limits: Pick<NodeLimits, 'park_after_ms'>;
  readonly streamModels: boolean;
  readonly componentCache: string | null;
  readonly engine: Pick<RunEngine, 'queue' | 'journals' | 'events' | 'sendEvents'>;
  readonly tasks: Pick<NodeTasks, 'revision' | 'notLoaded'>;
  readonly readiness: Pick<RegistryReadiness, 'blocks'>;
  readonly runtimes: TaskRuntimes;
  readonly metrics: Metrics;
  /** Null: runs are not traced. */
  readonly traces: RunTraces | null;
  readonly threads: GuestThreads;
  readonly budgets: TokenBudgets;
  readonly streams: RunStreams;
  /** Null: calls that need an approval are denied. */
  readonly approvals: ApprovalConnection | null;
  readonly parked: Pick<ParkedRuns, 'left'>;
  readonly stops: Pick<NodeStops, 'of'>;
  readonly log: ServiceLog;
}

/** An attempt whose guest is about to start. */
export interface GuestAttempt {
  readonly claim: Claim;
  readonly earlier: EarlierAttempt | null;
  readonly runtime: TaskRuntime;
  readonly input: Uint8Array;
  readonly events: AttemptEvents;
  readonly marks: RunMarks;
  readonly streams: StreamListener;
  readonly tracing: RunTracing | null;
  /** Its reason is a {@link StopReason}. */
  readonly signal: AbortSignal;
}

export class RunAttempts {
  readonly #node: NodeContext;
  readonly #failedFiles = new FailedFiles();

  constructor(node: NodeContext) {
    this.#node = node;
  }

  async attempt(claim: Claim, signal: AbortSignal): Promise<AttemptOutcome> {
    const { engine, traces } = this.#node;
    const earlier = await this.#earlier(claim);
    // Resumes after parking or draining are not counted as attempts, but are activations.
    const activation = claim.attempt + (earlier !== null && 'resumed' in earlier ? earlier.resumed + 1 : 0);
    const sender = engine.sendEvents?.(claim);
    const events = engine.events.begin(claim.run.id, activation, (event) => sender?.add(event));
    events.emit('status', { status: 'running', attempt: claim.attempt });
    const failed = (error: unknown): AttemptOutcome => retryOf(faultOf(error)) ?? again(errorText(error));
    const made =
      earlier !== null && 'kind' in earlier
        ? earlier
        : await this.#attempt(claim, earlier, events, signal).catch(failed);
    const outcome = this.#checkFailedFile(made);
    events.emit('status', statusEvent(outcome));
    if (outcome.kind === 'ended') {
      events.end();
      traces?.ended(claim, outcome.ending);
    } else events.idle();
    void sender?.close();
    return outcome;
  }

  /** What earlier attempts left, or the outcome of a run whose journal cannot be read. */
  async #earlier(claim: Claim): Promise<EarlierAttempt | AttemptOutcome | null> {
    try {
      return await this.#node.engine.journals.earlier(claim);
    } catch (error) {
      const retry = retryOf(faultOf(error));
      if (retry !== null) return retry;
      if (!(error instanceof JournalError)) throw error;
      return ended('dead', 'journal', error.message);
    }
  }

  /** A run whose file fails repeatedly is dead. */
  #checkFailedFile(outcome: AttemptOutcome): AttemptOutcome {
    if (outcome.kind !== 'again' || outcome.failedFile === undefined) return outcome;
    if (!this.#failedFiles.failed(outcome.failedFile)) return outcome;
    return ended('dead', 'journal', failedFileText(outcome.failedFile, outcome.why));
  }

  async #attempt(
    claim: Claim,
    earlier: EarlierAttempt | null,
    events: AttemptEvents,
    signal: AbortSignal,
  ): Promise<AttemptOutcome> {
    const { engine, runtimes, parked, stops, traces, log } = this.#node;
    const { run } = claim;
    const known = endedEarlier(earlier);
    if (known !== null) return { kind: 'ended', ending: known };
    if (claim.isCancelled) return ended('cancelled', 'cancelled', 'the run was cancelled while running');
    const stop = stops.of(run);
    if (stop?.effect === 'cancel') {
      await parked.left(run.namespace, run.id);
      return ended('cancelled', 'cancelled', stopText(stop));
    }
    // The stop was set during the claim.
    if (stop !== null) return { kind: 'again', counts: false, pause: false, why: stopText(stop) };
    if (claim.attempt > run.max_attempts) {
      const why = `${run.max_attempts} attempts were lost (retry.max_attempts), the last on ${run.node}`;
      return ended('dead', 'lost', why);
    }
    const found = await this.#findTask(claim);
    if ('kind' in found) return found;
    const input = await claim.input();
    const marks = new RunMarks({ queue: engine.queue, claim, events, log });
    const streams = this.#node.streams.listen(run.id);
    const tracing = traces?.attempt(claim) ?? null;
    try {
      const outcome = await runtimes.using(found, (runtime) =>
        runAttempt(this.#node, { claim, earlier, runtime, input, events, marks, streams, tracing, signal }),
      );
      const isCancelled = outcome.kind === 'ended' && outcome.ending.status === 'cancelled';
      if (isCancelled && marks.hasAsked) await parked.left(run.namespace, run.id);
      return outcome;
    } finally {
      await streams.close();
    }
  }

  /** The task revision of the run, or the outcome if the run cannot start with it. */
  async #findTask({ run }: Claim): Promise<TaskRevision | AttemptOutcome> {
    const { engine, tasks, readiness } = this.#node;
    let task: TaskRevision | null;
    try {
      task = await tasks.revision({ namespace: run.namespace, name: run.task }, run.revision);
    } catch (error) {
      const why = tasks.notLoaded();
      if (why === null) throw error;
      return notStarted(`cannot load revision ${run.revision} of the task: ${why}`);
    }
    if (task === null || task.wasm !== run.wasm) {
      const why = `revision ${run.revision} of the task is no longer stored on this node`;
      // Another node may have the revision; each node that lacks it counts as an attempt.
      return engine.queue.isShared ? again(why) : ended('dead', 'task', why);
    }
    const blocked = readiness.blocks(task);
    return blocked === null ? task : notStarted(blocked);
  }
}

/** Content of the status event for an outcome. */
function statusEvent(outcome: AttemptOutcome) {
  switch (outcome.kind) {
    case 'ended':
      return {
        status: outcome.ending.status,
        exit: outcome.ending.exit,
        ...(outcome.ending.degraded === undefined ? {} : { degraded: outcome.ending.degraded }),
      };
    case 'parked':
      return { status: 'parked', for: outcome.until };
    case 'again':
      return { status: 'queued', reason: outcome.why };
  }
}

/** A retry that counts as an attempt. */
const again = (why: string): AttemptOutcome => ({ kind: 'again', counts: true, pause: false, why });

/** The registry has not responded yet: the queue offers the run again, here or to another node. Other runs may start. */
const notStarted = (why: string): AttemptOutcome => ({
  ...{ kind: 'again', counts: false, pause: false, holds: 'namespace' },
  why,
});

function ended(status: RunEnding['status'], reason: string, message: string): AttemptOutcome {
  const ending = { status, exit: { reason, code: null, message }, cost: null, result: new Uint8Array() };
  return { kind: 'ended', ending };
}

/** The outcome of a run whose journal has a final end; null: it has none. */
export function endedEarlier(earlier: EarlierAttempt | null): RunEnding | null {
  if (earlier?.end == null || isResumable(earlier.end)) return null;
  const { reason, exit, message } = earlier.end;
  return endingOf({ reason, code: exit, message }, earlier.stdout, earlier.cost);
}

/** Runs the guest of an attempt: from the start, or resumed from the journal of the attempt before. */
export async function runAttempt(node: NodeContext, attempt: GuestAttempt): Promise<AttemptOutcome> {
  const { claim, earlier, runtime, events, marks, signal } = attempt;
  const { journals } = node.engine;
  const { run } = claim;
  const { task, noServers } = runtime;
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
      backend: node.budgets.forRun(
        { task, submittedBy: run.submitted_by, spentBefore: totalTokens(earlier?.cost.tokens ?? {}) },
        runtime.backend,
      ),
      mcp: runtime.mcp,
      audit: runtime.audit,
      metrics: node.metrics,
      tracing: attempt.tracing,
      events: toolEvents,
      componentCache: node.componentCache,
      threads: task.isolation === 'shared' ? node.threads : null,
      namespace: task.namespace,
      streams: attempt.streams,
      stdin: () => Readable.from([attempt.input.subarray(earlier?.inputRead ?? 0)]),
      output: (stream, bytes) => {
        events.emit(stream === 'stdout' ? 'output' : 'log', bytesJson(bytes));
        if (stream === 'stdout' && !output.add(bytes)) tooLarge.abort();
      },
      onModelEvent: node.streamModels ? (event, session) => events.emit('model', { session, ...event }) : null,
      journal,
      approve: node.approvals === null ? null : 'sms',
      submittedBy: run.first_submitted_by ?? run.submitted_by,
      waits: {
        parkAfterMs: node.limits.park_after_ms,
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
      onNotice: (message) => node.log('info', 'notice', { run: run.id, message }),
    });
  } catch (error) {
    const retry = retryOf(faultOf(error));
    if (retry !== null) return retry;
    // A journal error is not the fault of the guest: the disk may have room later.
    const isJournal = error instanceof JournalError;
    return { kind: 'again', counts: !isJournal, pause: isJournal, why: errorText(error) };
  }
  const stop = signal.aborted ? stopIn(signal.reason) : null;
  if (stop !== null && stop.effect !== 'cancel' && isResumable(result)) {
    return parked ?? { kind: 'parked', until: untilLifted(stop), requests: [] };
  }
  if (result.reason === 'parked' && parked !== null) {
    // A run that is cancelled or lost must not be parked.
    if (signal.reason !== 'cancelled' && signal.reason !== 'lost' && stop === null) return parked;
    result = { ...result, reason: 'interrupted' };
  }
  const isFirst = claim.attempt === 1 && earlier === null;
  const cost = isFirst
    ? costOf(result)
    : signal.reason === 'lost'
      ? null
      : ((await journals.earlier(claim))?.cost ?? null);
  const file = result.reason === 'journal' ? journal.file : null;
  const retry = retryOf({ code: result.systemError, file, message: String(result.message) });
  if (retry !== null) return retry;
  const outcome = outcomeOf(result, signal.aborted ? (signal.reason as StopReason) : null, output.bytes(), cost);
  const { degraded } = marks;
  if (outcome.kind !== 'ended' || degraded === undefined) return outcome;
  return { ...outcome, ending: { ...outcome.ending, degraded } };
}

/** The stop of the registry that ended the guest; null: another reason. */
function stopIn(reason: unknown): StopRecord | null {
  return typeof reason === 'object' && reason !== null && 'stop' in reason ? (reason as StoppedBy).stop : null;
}

const untilLifted = (stop: StopRecord): ParkedFor => ({ kind: 'stop', stop: stop.stop_id, reason: stop.reason });

function outcomeOf(
  { reason, exitCode, message, isolation }: RunResult,
  stop: StopReason | null,
  output: Uint8Array,
  cost: RunCost | null,
): AttemptOutcome {
  const end = (exit: RunEnding['exit']): AttemptOutcome => ({ kind: 'ended', ending: endingOf(exit, output, cost) });
  if (reason === 'interrupted') {
    if (stop === 'cancelled') {
      return end({ reason: 'cancelled', code: null, message: 'the run was cancelled while running' });
    }
    if (stop !== null && typeof stop === 'object') {
      return end({ reason: 'cancelled', code: null, message: stopText(stop.stop) });
    }
    if (stop !== null) return { kind: 'again', counts: stop === 'lost', pause: false, why: stop };
    const tooLarge = `the output of the run has more than ${MAX_RESULT_BYTES} bytes`;
    return end({ reason: 'result', code: null, message: tooLarge });
  }
  // Not counted, but bounded: a module that blocked its thread runs on a dedicated thread from now on.
  if (reason === 'lost') {
    const retry = { kind: 'again', counts: false, pause: false, why: String(message) } as const;
    return isolation.kind === 'none' ? { ...retry, holds: 'namespace' } : retry;
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

function costOf({ chat }: RunResult): RunCost {
  const tokens: Record<string, number> = {};
  addTokens(tokens, chat.usage);
  return { model_calls: chat.iterations, tool_calls: chat.toolCalls, tokens };
}

/** Collects what the guest writes to stdout, up to the limit of a result. */
class ResultBytes {
  readonly #chunks: Uint8Array[] = [];
  #bytes = 0;

  constructor(earlier: Uint8Array | null) {
    if (earlier !== null) this.add(earlier);
  }

  /** False: the limit is exceeded. */
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
