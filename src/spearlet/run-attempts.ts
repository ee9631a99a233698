import { JournalError } from '../journal/journal-error.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { EventSender } from '../queue/nats/nats-events.ts';
import type { Claim, RunEnding, RunQueue } from '../queue/run-queue.ts';
import type { GuestThreads } from '../run/threads/guest-threads.ts';
import type { ServiceLog } from '../sms/service-log.ts';
import type { NodeTasks } from './node-tasks.ts';
import { type AttemptOutcome, attemptRun, endedEarlier } from './run-claim.ts';
import type { AllRunEvents } from './run-events.ts';
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
    const ofRun = events.begin(id, claim.attempt);
    const sender = this.#options.sendEvents?.(claim);
    ofRun.listen((event) => event !== 'end' && sender?.add(event));
    ofRun.emit('status', { status: 'running', attempt: claim.attempt });
    const outcome = await this.#attempt(claim, signal);
    ofRun.emit(
      'status',
      outcome.kind === 'ended' ? { status: outcome.ending.status, exit: outcome.ending.exit } : { status: 'queued' },
    );
    // Those who follow a run that waits again are told of its next attempt.
    if (outcome.kind === 'ended') events.end(id);
    if (outcome.kind === 'ended') this.#options.traces?.ended(claim, outcome.ending);
    void sender?.close();
    return outcome;
  }

  async #attempt(claim: Claim, signal: AbortSignal): Promise<AttemptOutcome> {
    const { queue, tasks, runtimes, journals, events, log } = this.#options;
    const { metrics, componentCache, threads, streamModels, budgets, traces } = this.#options;
    const { run, attempt } = claim;
    let earlier: EarlierAttempt | null;
    try {
      earlier = await journals.earlier(claim);
    } catch (error) {
      if (!(error instanceof JournalError)) throw error;
      // To begin anew would do again what was done.
      return ended('dead', 'journal', error.message);
    }
    const known = endedEarlier(earlier);
    if (known !== null) return { kind: 'ended', ending: known };
    if (claim.isCancelled) return ended('cancelled', 'cancelled', 'it was cancelled while it ran');
    if (attempt > run.max_attempts) {
      const why = `${run.max_attempts} attempts were lost (retry.max_attempts), the last on ${run.node}`;
      return ended('dead', 'lost', why);
    }
    const task = await tasks.revision({ namespace: run.namespace, name: run.task }, run.revision);
    if (task === null || task.wasm !== run.wasm) {
      const why = `revision ${run.revision} of the task is not here any more`;
      // Another node may have it, and each that has not counts as an attempt.
      if (queue.isShared) return { kind: 'again', counts: true, pause: false, why };
      return ended('dead', 'task', why);
    }
    const input = (await queue.input(run.id)) ?? new Uint8Array();
    const onNotice = (message: string) => log('info', 'notice', { run: run.id, message });
    const ofRun = events.of(run.id) ?? events.begin(run.id, attempt);
    const streams = this.#options.streams.listen(run.namespace, run.id);
    const options = { claim, input, journals, events: ofRun, streams, signal, onNotice };
    const shared = { metrics, componentCache, threads, budgets, streamModels, tracing: traces?.attempt(claim) ?? null };
    try {
      return await runtimes.using(task, (runtime) => attemptRun({ runtime, ...options, ...shared }, earlier));
    } finally {
      await streams.close();
    }
  }
}

function ended(status: RunEnding['status'], reason: string, message: string): AttemptOutcome {
  const ending = { status, exit: { reason, code: null, message }, cost: null, result: new Uint8Array() };
  return { kind: 'ended', ending };
}
