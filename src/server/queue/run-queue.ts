import type { EndStatus, ParkedFor, RunCost, RunDegradation, RunExit, RunRecord, RunStatus } from '../records/run.ts';

export type { ParkedFor } from '../records/run.ts';

/** A run to submit. Submitting the same id again is idempotent. */
export interface NewRun {
  readonly id: string;
  readonly namespace: string;
  readonly task: string;
  readonly revision: number;
  /** sha256 of the module. */
  readonly wasm: string;
  readonly pool: string;
  readonly submittedBy: string;
  readonly input: Uint8Array;
  readonly maxAttempts: number;
  readonly retryOf?: string | null;
  /** Of a retry: the user who submitted the first run. @default null: submittedBy */
  readonly firstSubmittedBy?: string | null;
  /** Parent trace (W3C Trace Context). @default none */
  readonly traceparent?: string | null;
}

/** A run that a node owns until its lease expires. `attempt` is the fencing token: an older one owns nothing. */
export interface Claim {
  readonly run: RunRecord;
  readonly attempt: number;
  /** Cancellation was requested before the claim. */
  readonly isCancelled: boolean;
  /**
   * The run was restored from a backup, and may have continued after the backup was made: calls that are missing in its
   * journal may have been sent. @default false
   */
  readonly isRestored?: boolean;
  input(): Promise<Uint8Array>;
  /** Aborts when the engine learns that another claim owns the run: the guest must be stopped. @default never */
  readonly lost?: AbortSignal | undefined;
}

export interface RunEnding {
  readonly status: EndStatus;
  readonly exit: RunExit;
  readonly cost: RunCost | null;
  readonly result: Uint8Array;
  /** MCP servers whose tools the run lacked. @default the value of the last {@link RunQueue.mark} */
  readonly degraded?: readonly RunDegradation[];
}

/** State of a claimed run that users see while its guest runs. */
export interface RunMark {
  readonly status: 'running' | 'waiting';
  /** Why the run makes no progress. @default null */
  readonly reason?: string | null;
  /** @default unchanged */
  readonly degraded?: readonly RunDegradation[];
}

/** Return of a claimed run to the queue. */
export interface RunRelease {
  /** Whether the attempt counts toward `max_attempts`. */
  readonly counts: boolean;
  /** Stored as `status_reason` until the run is claimed again. @default null */
  readonly reason?: string | null;
}

export interface RunFilter {
  readonly task?: string | undefined;
  readonly status?: RunStatus | undefined;
  /** Cursor of the previous page. */
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** Unit of fair scheduling: the runs of one task submitted by one caller. */
export interface QueueKey {
  readonly namespace: string;
  readonly task: string;
  readonly submittedBy: string;
}

export interface QueueFacts {
  readonly byStatus: Readonly<Record<RunStatus, number>>;
  /** Age of the oldest queued run; null: no run is queued. */
  readonly oldestQueuedMs: number | null;
}

export interface ParkedPage {
  readonly runs: readonly { readonly namespace: string; readonly id: string; readonly until: ParkedFor }[];
  /** Null: this is the last page. */
  readonly cursor: string | null;
}

/**
 * `full`: the queue is full. `other_input`: the id belongs to a run with another input. `not_stored`: the write failed.
 * `unavailable`: no response in time; the request may have been executed.
 */
export type QueueErrorCode = 'full' | 'other_input' | 'not_stored' | 'unavailable' | 'closed';

export class QueueError extends Error {
  readonly code: QueueErrorCode;

  constructor(code: QueueErrorCode, message: string) {
    super(message);
    this.name = 'QueueError';
    this.code = code;
  }
}

/** A status change or cancellation of a run. */
export interface RunChange {
  readonly id: string;
  readonly status: RunStatus;
  /** The guest must be stopped. */
  readonly cancel: boolean;
}

/** Submission, reading and cancellation of runs. A resolved write survives a crash of the machine. */
export interface SubmittedRuns {
  /** @throws QueueError */
  submit(run: NewRun): Promise<{ readonly run: RunRecord; readonly created: boolean }>;
  /** Null: no such run. A queued or parked run ends at once; for a running one the node receives a {@link RunChange}. */
  cancel(namespace: string, id: string): Promise<RunRecord | null>;
  get(namespace: string, id: string): Promise<RunRecord | null>;
  /** In any namespace. */
  find(id: string): Promise<RunRecord | null>;
  list(
    namespace: string,
    filter: RunFilter,
  ): Promise<{ readonly runs: readonly RunRecord[]; readonly cursor: string | null }>;
  input(id: string): Promise<Uint8Array | null>;
  /** Null: the run has not ended. */
  result(id: string): Promise<Uint8Array | null>;
  /** Notifies after each change. Returns a function that unsubscribes. */
  onChange(listener: (change: RunChange) => void): () => void;
  facts(): QueueFacts;
  /** Why writes fail now; null: they succeed. */
  problem(): string | null;
  close(): Promise<void>;
}

/**
 * The run queue of a node. Runs of one {@link QueueKey} start in submission order. The embedded engine serves the keys
 * round robin; a shared engine delivers runs in submission order. A resolved write of a node survives a crash of the
 * process, and the outcome of a run also a crash of the machine. A crash may lose the ownership of a run: the run is
 * queued again, and resumes from its journal.
 */
export interface RunQueue extends SubmittedRuns {
  /** Whether other nodes claim runs from it too. */
  readonly isShared: boolean;
  /** Notifies when a claim may succeed. Returns a function that unsubscribes. */
  onWork(listener: () => void): () => void;
  /** Claims at most `max` runs. `hasRoom` is called before each, and may reject its key. */
  claim(
    node: string,
    pool: string,
    max: number,
    leaseMs: number,
    hasRoom: (key: QueueKey) => boolean,
  ): Promise<readonly Claim[]>;
  /** False: the claim lost the run, and the guest must be stopped. */
  renew(claim: Claim, leaseMs: number): Promise<boolean>;
  /** Stores the state that users see. False as with `renew`. */
  mark(claim: Claim, mark: RunMark): Promise<boolean>;
  /** Stores outcome and result. False as with `renew`. */
  finish(claim: Claim, ending: RunEnding): Promise<boolean>;
  /** Returns the run to the head of the queue. False as with `renew`. */
  release(claim: Claim, release: RunRelease): Promise<boolean>;
  /**
   * Parks the run until {@link wake}; does not count as an attempt. False as with `renew`. A run that is being cancelled
   * returns to the queue instead, and its next claim has `isCancelled`.
   */
  park(claim: Claim, until: ParkedFor): Promise<boolean>;
  /**
   * Returns a parked run to the head of the queue. False: it is not parked. `wantedBy`: node of a shared queue that should
   * claim the run if it has a slot soon.
   */
  wake(namespace: string, id: string, wantedBy?: string): Promise<boolean>;
  /** One page of the parked runs of a pool, with what they wait for. */
  parked(pool: string, cursor: string | null, limit: number): Promise<ParkedPage>;
  /** Removes some runs that ended before `endedBefore`, and returns them. */
  forget(endedBefore: number): Promise<readonly RunRecord[]>;
  /** Tokens spent in a scope on a day (`2026-11-17`). */
  spent(scope: string, day: string): Promise<number>;
  /** A negative number returns tokens that were reserved and not spent. */
  spend(scope: string, day: string, tokens: number): Promise<void>;
  /**
   * Spends tokens atomically if the total of all nodes stays within the limit. Null: spent; otherwise the total so far.
   * @default the queue has one node, which counts in memory
   */
  reserve?(scope: string, day: string, tokens: number, limit: number): Promise<number | null>;
}
