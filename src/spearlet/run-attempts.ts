import { errorText } from '../base/error-text.ts';
import { JournalError } from '../journal/journal-error.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { EventSender } from '../queue/nats/event-sender.ts';
import type { AllRunEvents, AttemptEvents } from '../queue/run-events.ts';
import type { Claim, RunEnding, RunQueue } from '../queue/run-queue.ts';
import type { WaitingApproval } from '../run/long-waits.ts';
import type { GuestThreads } from '../run/threads/guest-threads.ts';
import type { ServiceLog } from '../sms/service-log.ts';
import type { NodeTasks } from './node-tasks.ts';
import { type AttemptOutcome, attemptRun, endedEarlier } from './run-claim.ts';
import type { EarlierAttempt, RunJournals } from './run-journals.ts';
import type { RunStreams } from './run-streams.ts';
import type { RunTraces } from './run-traces.ts';
import type { TaskRuntimes } from './task-runtimes.ts';
import type { TokenBudgets } from './token-budgets.ts';

export interface RunAttemptsOptions {
  readonly queue: RunQueue;
  readonly tasks: Pick<NodeTasks, 'revision'>;
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
  readonly log: ServiceLog;
}

/** What is to be done about a run that was claimed: nothing any more, or an attempt. */
export class RunAttempts {
  readonly #options: RunAttemptsOptions;

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
    const failed = (error: unknown): AttemptOutcome => again(errorText(error));
    const outcome =
      earlier !== null && 'kind' in earlier
        ? earlier
        : await this.#attempt(claim, earlier, ofRun, signal).catch(failed);
    ofRun.emit('status', shownOutcome(outcome));
    if (outcome.kind === 'ended') {
      ofRun.end();
      this.#options.traces?.ended(claim, outcome.ending);
    } else ofRun.rest();
    void sender?.close();
    return outcome;
  }

  /** What earlier attempts left, or what is to become of a run of which nobody knows that. */
  async #earlier(claim: Claim): Promise<EarlierAttempt | AttemptOutcome | null> {
    try {
      return await this.#options.journals.earlier(claim);
    } catch (error) {
      if (!(error instanceof JournalError)) throw error;
      // To begin anew would do again what was done.
      return ended('dead', 'journal', error.message);
    }
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
    if (attempt > run.max_attempts) {
      const why = `${run.max_attempts} attempts were lost (retry.max_attempts), the last on ${run.node}`;
      return ended('dead', 'lost', why);
    }
    const task = await tasks.revision({ namespace: run.namespace, name: run.task }, run.revision);
    if (task === null || task.wasm !== run.wasm) {
      const why = `revision ${run.revision} of the task is no longer stored on this node`;
      // Another node may have it, and each that has not counts as an attempt.
      if (queue.isShared) return again(why);
      return ended('dead', 'task', why);
    }
    const input = await claim.input();
    const onNotice = (message: string) => log('info', 'notice', { run: run.id, message });
    let hasAsked = false;
    const onWaiting = (approvals: readonly WaitingApproval[]) => {
      hasAsked = true;
      const status = approvals.length > 0 ? 'waiting' : 'running';
      ofRun.emit('status', { status, ...(approvals.length > 0 ? { approvals } : {}) });
      queue.mark(claim, status).catch((error: unknown) => {
        log('warn', 'not_marked', { run: run.id, status, message: errorText(error) });
      });
    };
    const streams = this.#options.streams.listen(run.id);
    const options = {
      claim,
      input,
      journals,
      events: ofRun,
      streams,
      signal,
      onNotice,
      onWaiting,
      approve,
      parkAfterMs,
    };
    const shared = { metrics, componentCache, threads, budgets, streamModels, tracing: traces?.attempt(claim) ?? null };
    try {
      const outcome = await runtimes.using(task, (runtime) => attemptRun({ runtime, ...options, ...shared }, earlier));
      const isCancelled = outcome.kind === 'ended' && outcome.ending.status === 'cancelled';
      if (isCancelled && hasAsked) await this.#options.withdraw(run.namespace, run.id);
      return outcome;
    } finally {
      await streams.close();
    }
  }
}

function shownOutcome(outcome: AttemptOutcome) {
  switch (outcome.kind) {
    case 'ended':
      return { status: outcome.ending.status, exit: outcome.ending.exit };
    case 'parked':
      return { status: 'parked', for: outcome.until };
    case 'again':
      return { status: 'queued' };
  }
}

/** It counts as an attempt. */
const again = (why: string): AttemptOutcome => ({ kind: 'again', counts: true, pause: false, why });

function ended(status: RunEnding['status'], reason: string, message: string): AttemptOutcome {
  const ending = { status, exit: { reason, code: null, message }, cost: null, result: new Uint8Array() };
  return { kind: 'ended', ending };
}
