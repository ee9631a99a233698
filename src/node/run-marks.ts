import { errorText } from '../base/errors.ts';
import type { WaitingApproval } from '../run/long-waits.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import type { AttemptEvents } from '../server/queue/run-events.ts';
import type { Claim, RunQueue } from '../server/queue/run-queue.ts';
import type { RunDegradation } from '../server/records/run.ts';

export interface RunMarksOptions {
  readonly queue: Pick<RunQueue, 'mark'>;
  readonly claim: Claim;
  readonly events: Pick<AttemptEvents, 'emit'>;
  readonly log: ServiceLog;
}

/**
 * What users see of a run while its guest runs: approvals and servers that it waits for, and servers that it lacks. Each
 * change is an event of the run and is stored with the run, in this order.
 */
export class RunMarks {
  readonly #options: RunMarksOptions;
  #approvals: readonly WaitingApproval[] = [];
  #reason: string | null = null;
  #degraded: readonly RunDegradation[];
  #storing: Promise<void> = Promise.resolve();
  /** Whether an approver was asked. */
  hasAsked = false;

  constructor(options: RunMarksOptions) {
    this.#options = options;
    this.#degraded = options.claim.run.degraded ?? [];
  }

  /** Missing servers of all attempts; undefined: none. */
  get degraded(): readonly RunDegradation[] | undefined {
    return this.#degraded.length === 0 ? undefined : this.#degraded;
  }

  readonly onWaiting = (approvals: readonly WaitingApproval[]): void => {
    this.hasAsked = true;
    this.#approvals = approvals;
    void this.#mark(approvals.length > 0 ? { approvals } : {});
  };

  readonly onServerWait = (reason: string | null): void => {
    this.#reason = reason;
    void this.#mark({ reason });
  };

  /** Resolves when the mark is stored or its write failed. */
  readonly onDegraded = (found: readonly RunDegradation[]): Promise<void> => {
    const { claim, log } = this.#options;
    const added = found.filter(({ server }) => !this.#degraded.some((known) => known.server === server));
    if (added.length === 0) return this.#storing;
    this.#degraded = [...this.#degraded, ...added];
    const { id, namespace, task } = claim.run;
    for (const { server, reason } of added) {
      log('warn', 'run_degraded', { run: id, task: `${namespace}/${task}`, server, message: reason });
    }
    return this.#mark({ degraded: this.#degraded });
  };

  #mark(shown: object): Promise<void> {
    const { queue, claim, events, log } = this.#options;
    const status = this.#approvals.length > 0 ? 'waiting' : 'running';
    events.emit('status', { status, ...shown });
    const { degraded } = this;
    const mark = { status, reason: this.#reason, ...(degraded === undefined ? {} : { degraded }) } as const;
    const store = () => queue.mark(claim, mark);
    this.#storing = this.#storing.then(store).then(
      () => {},
      (error: unknown) => log('warn', 'not_marked', { run: claim.run.id, status, message: errorText(error) }),
    );
    return this.#storing;
  }
}
