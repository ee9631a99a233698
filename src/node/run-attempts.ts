import { stopText } from '../agent/policy/stops.ts';
import { errorText } from '../base/error-text.ts';
import { JournalError } from '../runtime/durable/journal-error.ts';
import type { GuestThreads } from '../runtime/host/guest-threads.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import type { EventSender } from '../server/queue/nats/nats-events.ts';
import type { AllRunEvents, AttemptEvents } from '../server/queue/run-events.ts';
import type { Claim, RunEnding, RunQueue } from '../server/queue/run-queue.ts';
import type { TaskRevision } from '../server/records/task.ts';
import type { Metrics } from '../server/telemetry/metrics.ts';
import { FailedFiles, failedFileText, faultOf, retryOf } from './host-failure.ts';
import { type NodeStops, noStops } from './node-stops.ts';
import type { NodeTasks } from './node-tasks.ts';
import { type AttemptOutcome, attemptRun, endedEarlier } from './run-claim.ts';
import type { EarlierAttempt, RunJournals } from './run-journals.ts';
import { RunMarks } from './run-marks.ts';
import type { RunStreams } from './run-streams.ts';
import type { RunTraces } from './run-traces.ts';
import type { TaskRuntimes } from './task-runtimes.ts';
import type { TokenBudgets } from './token-budgets.ts';

export interface RunAttemptsOptions {
  readonly queue: RunQueue;
  readonly tasks: Pick<NodeTasks, 'revision' | 'notLoaded'>;
  /** Why a run of this revision must not start here yet; null: it may. */
  readonly notYet: (task: TaskRevision) => string | null;
  readonly runtimes: TaskRuntimes;
  readonly journals: RunJournals;
  readonly events: AllRunEvents;
  readonly metrics: Metrics;
  /** Null: runs are not traced. */
  readonly traces: RunTraces | null;
  readonly componentCache: string | null;
  readonly threads: GuestThreads;
  readonly streamModels: boolean;
  readonly budgets: TokenBudgets;
  readonly streams: RunStreams;
  /** For those who follow the run on another node; null: there is none. */
  readonly sendEvents: ((claim: Claim) => EventSender) | null;
  readonly approve: 'sms' | null;
  readonly parkAfterMs: number;
  /** Takes back what a run has asked people. */
  readonly withdraw: (namespace: string, id: string) => Promise<void>;
  /** Stops of the registry. @default none */
  readonly stops?: Pick<NodeStops, 'of'>;
  readonly log: ServiceLog;
}

/** What is to be done about a run that was claimed: nothing any more, or an attempt. */
export class RunAttempts {
  readonly #options: RunAttemptsOptions;
  readonly #failedFiles = new FailedFiles();

  constructor(options: RunAttemptsOptions) {
    this.#options = options;
  }

  async attempt(claim: Claim, signal: AbortSignal): Promise<AttemptOutcome> {
    const { events } = this.#options;
    const { id } = claim.run;
    const earlier = await this.#earlier(claim);
    // Lives that were given up in good order, or parked, cost no attempt, but have a journal.
    const life = claim.attempt + (earlier !== null && 'resumed' in earlier ? earlier.resumed + 1 : 0);
    const sender = this.#options.sendEvents?.(claim);
    const ofRun = events.begin(id, life, (event) => sender?.add(event));
    ofRun.emit('status', { status: 'running', attempt: claim.attempt });
    const failed = (error: unknown): AttemptOutcome => retryOf(faultOf(error)) ?? again(errorText(error));
    const made =
      earlier !== null && 'kind' in earlier
        ? earlier
        : await this.#attempt(claim, earlier, ofRun, signal).catch(failed);
    const outcome = this.#withoutFailedFile(made);
    ofRun.emit('status', shownOutcome(outcome));
    if (outcome.kind === 'ended') {
      ofRun.end();
      this.#options.traces?.ended(claim, outcome.ending);
    } else ofRun.idle();
    void sender?.close();
    return outcome;
  }

  /** What earlier attempts left, or what is to become of a run of which nobody knows that. */
  async #earlier(claim: Claim): Promise<EarlierAttempt | AttemptOutcome | null> {
    try {
      return await this.#options.journals.earlier(claim);
    } catch (error) {
      const retry = retryOf(faultOf(error));
      if (retry !== null) return retry;
      if (!(error instanceof JournalError)) throw error;
      // To begin anew would do again what was done.
      return ended('dead', 'journal', error.message);
    }
  }

  /** A run whose file fails again and again is dead. */
  #withoutFailedFile(outcome: AttemptOutcome): AttemptOutcome {
    if (outcome.kind !== 'again' || outcome.failedFile === undefined) return outcome;
    if (!this.#failedFiles.failed(outcome.failedFile)) return outcome;
    return ended('dead', 'journal', failedFileText(outcome.failedFile, outcome.why));
  }

  async #attempt(
    claim: Claim,
    earlier: EarlierAttempt | null,
    ofRun: AttemptEvents,
    signal: AbortSignal,
  ): Promise<AttemptOutcome> {
    const { queue, tasks, runtimes, journals, log, approve, parkAfterMs } = this.#options;
    const { metrics, componentCache, threads, streamModels, budgets, traces } = this.#options;
    const { run, attempt } = claim;
    const known = endedEarlier(earlier);
    if (known !== null) return { kind: 'ended', ending: known };
    if (claim.isCancelled) return ended('cancelled', 'cancelled', 'the run was cancelled while running');
    const stop = (this.#options.stops ?? noStops).of(run);
    if (stop?.effect === 'cancel') {
      await this.#options.withdraw(run.namespace, run.id);
      return ended('cancelled', 'cancelled', stopText(stop));
    }
    // It was set while the run was claimed.
    if (stop !== null) return { kind: 'again', counts: false, pause: false, why: stopText(stop) };
    if (attempt > run.max_attempts) {
      const why = `${run.max_attempts} attempts were lost (retry.max_attempts), the last on ${run.node}`;
      return ended('dead', 'lost', why);
    }
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
      // Another node may have it, and each that has not counts as an attempt.
      if (queue.isShared) return again(why);
      return ended('dead', 'task', why);
    }
    const notYet = this.#options.notYet(task);
    if (notYet !== null) return notStarted(notYet);
    const input = await claim.input();
    const onNotice = (message: string) => log('info', 'notice', { run: run.id, message });
    const marks = new RunMarks({ queue, claim, events: ofRun, log });
    const streams = this.#options.streams.listen(run.id);
    const options = {
      claim,
      input,
      journals,
      events: ofRun,
      streams,
      signal,
      onNotice,
      marks,
      approve,
      parkAfterMs,
    };
    const shared = { metrics, componentCache, threads, budgets, streamModels, tracing: traces?.attempt(claim) ?? null };
    try {
      const outcome = await runtimes.using(task, (runtime) => attemptRun({ runtime, ...options, ...shared }, earlier));
      const isCancelled = outcome.kind === 'ended' && outcome.ending.status === 'cancelled';
      if (isCancelled && marks.hasAsked) await this.#options.withdraw(run.namespace, run.id);
      return outcome;
    } finally {
      await streams.close();
    }
  }
}

function shownOutcome(outcome: AttemptOutcome) {
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

/** It counts as an attempt. */
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
