import type { EndStatus, ParkedFor, RunCost, RunDegradation, RunExit, RunRecord, RunStatus } from '../records/run.ts';

export type { ParkedFor } from '../records/run.ts';

/** A run that somebody wants. Its id makes it the same one, however often it is submitted. */
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
  /** What it is a part of (W3C Trace Context). @default nothing */
  readonly traceparent?: string | null;
}

/** A run that is this node's until its lease ends. `attempt` is its fence: who has an older one owns nothing. */
export interface Claim {
  readonly run: RunRecord;
  readonly attempt: number;
  /** Somebody wanted it to end before it was claimed. */
  readonly isCancelled: boolean;
  /**
   * The run comes from a backup, and may have continued after the backup was made: a call that its journal does not have
   * may have been made. @default false
   */
  readonly isRestored?: boolean;
  /** What it was submitted with. */
  input(): Promise<Uint8Array>;
  /** Aborted when the engine learns that the run is not this claim's any more: its guest is to be ended. @default never */
  readonly lost?: AbortSignal | undefined;
}

export interface RunEnding {
  readonly status: EndStatus;
  readonly exit: RunExit;
  readonly cost: RunCost | null;
  readonly result: Uint8Array;
  /** Servers whose tools the run did not have. @default what {@link RunQueue.mark} stored last */
  readonly degraded?: readonly RunDegradation[];
}

/** State of a claimed run that users see while its guest runs. */
export interface RunMark {
  readonly status: 'running' | 'waiting';
  /** Why the run makes no progress. @default null: it does */
  readonly reason?: string | null;
  /** @default as stored */
  readonly degraded?: readonly RunDegradation[];
}

/** How a claimed run returns to the queue. */
export interface RunRelease {
  /** Whether the attempt is one of `max_attempts`. */
  readonly counts: boolean;
  /** Stored as `status_reason` until the run is claimed again. @default null */
  readonly reason?: string | null;
}

export interface RunFilter {
  readonly task?: string | undefined;
  readonly status?: RunStatus | undefined;
  /** Of the page before. */
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** Who waits: runs of one task, submitted by one caller. */
export interface Line {
  readonly namespace: string;
  readonly task: string;
  readonly submittedBy: string;
}

export interface QueueFacts {
  readonly byStatus: Readonly<Record<RunStatus, number>>;
  /** How long the first of those that wait has been waiting; null: nobody waits. */
  readonly oldestQueuedMs: number | null;
}

/** Some of the runs that are parked. */
export interface ParkedPage {
  readonly runs: readonly { readonly namespace: string; readonly id: string; readonly until: ParkedFor }[];
  /** For the next page; null: there is none. */
  readonly cursor: string | null;
}

/**
 * `full`: the line is. `other_input`: the id belongs to a run with another input. `not_stored`: the disk refused.
 * `unavailable`: no answer in time, so that what was requested may have been done.
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

/** A run has a new status, or somebody wants it to end. */
export interface RunChange {
  readonly id: string;
  readonly status: RunStatus;
  /** Its guest is to be ended. */
  readonly cancel: boolean;
}

/**
 * What people do with runs: they submit them, look at them, and end them. What a method resolved with survives the end of
 * the machine.
 */
export interface SubmittedRuns {
  /** @throws QueueError */
  submit(run: NewRun): Promise<{ readonly run: RunRecord; readonly created: boolean }>;
  /** Null: there is no such run. One that waits or is parked is cancelled at once, of one that runs the node is told. */
  cancel(namespace: string, id: string): Promise<RunRecord | null>;
  get(namespace: string, id: string): Promise<RunRecord | null>;
  /** Whatever its namespace is. */
  find(id: string): Promise<RunRecord | null>;
  list(
    namespace: string,
    filter: RunFilter,
  ): Promise<{ readonly runs: readonly RunRecord[]; readonly cursor: string | null }>;
  input(id: string): Promise<Uint8Array | null>;
  /** Null: there is none yet. */
  result(id: string): Promise<Uint8Array | null>;
  /** Told after each change; the returned function ends that. */
  onChange(listener: (change: RunChange) => void): () => void;
  facts(): QueueFacts;
  /** Why nothing can be stored; null: it can. */
  problem(): string | null;
  close(): Promise<void>;
}

/**
 * Where runs wait for a node, and where their results are. Runs of one line are begun in the order in which they were
 * submitted. Lines take turns where one process knows them all; a shared engine gives out runs in the order in which they
 * came. What a method of a node resolved with survives the end of the process, and how a run finished also that of the
 * machine. Whose a run is may be forgotten then: it waits again, and its journal tells how far it came.
 */
export interface RunQueue extends SubmittedRuns {
  /** Whether other nodes take runs from it too: what this one does not know another may. */
  readonly isShared: boolean;
  /** Told when there may be something to claim; the returned function ends that. */
  onWork(listener: () => void): () => void;
  /** At most `max` runs for `node`, of lines for which `hasRoom` says so; it is asked before each. */
  claim(
    node: string,
    pool: string,
    max: number,
    leaseMs: number,
    hasRoom: (line: Line) => boolean,
  ): Promise<readonly Claim[]>;
  /** False: it is not this claim's any more, and its guest is to be ended. */
  renew(claim: Claim, leaseMs: number): Promise<boolean>;
  /** Stores what the guest of a claimed run does. False as with `renew`. */
  mark(claim: Claim, mark: RunMark): Promise<boolean>;
  /** Writes how it ended, with its result. False as with `renew`: somebody else did, or will. */
  finish(claim: Claim, ending: RunEnding): Promise<boolean>;
  /** Returns the run to the head of its line. False as with `renew`. */
  release(claim: Claim, release: RunRelease): Promise<boolean>;
  /**
   * Gives up slot and claim until {@link wake}; costs no attempt. False as with `renew`. One that somebody wants to end
   * does not stay parked: it goes back to its line, and its next claim says so.
   */
  park(claim: Claim, until: ParkedFor): Promise<boolean>;
  /**
   * A parked run goes to the head of its line, where the engine knows one. False: it is not parked. `wantedBy`: a node
   * that is to have it if it has a slot soon, where there are others.
   */
  wake(namespace: string, id: string, wantedBy?: string): Promise<boolean>;
  /** All parked runs of a pool with what they wait for, some at a time, for whoever watches on their behalf. */
  parked(pool: string, cursor: string | null, limit: number): Promise<ParkedPage>;
  /** Forgets runs that ended before `endedBefore`, some at a time. Returns those that are gone. */
  forget(endedBefore: number): Promise<readonly RunRecord[]>;
  /** Tokens that were spent for something on a day (`2026-11-17`). */
  spent(scope: string, day: string): Promise<number>;
  /** A negative number gives back what was reserved and not spent. */
  spend(scope: string, day: string, tokens: number): Promise<void>;
  /**
   * Spends tokens where they fit under the limit beside those of all nodes, in one step. Null: they are spent; otherwise
   * how many were. @default one node has the queue, and counts for itself
   */
  reserve?(scope: string, day: string, tokens: number, limit: number): Promise<number | null>;
}
