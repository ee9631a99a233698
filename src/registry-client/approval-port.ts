import type { ApprovalStatus, BoundCall } from '../server/records/approval.ts';

/** What a registry says of a request. */
export interface FiledApproval {
  readonly id: string;
  readonly status: ApprovalStatus;
  /** Of the arguments' hash. */
  readonly salt: string;
  /** Empty: none yet. */
  readonly decision: string;
  readonly reason: string;
  readonly decidedBy: readonly string[];
  /** Until a waiting request is denied, or a yes ends; and since when it was decided. */
  readonly leftMs: number;
  readonly ageMs: number;
}

export interface AskedApproval {
  /** Of the run. @default the node's own */
  readonly namespace?: string | null;
  readonly call: BoundCall;
  readonly callId: string;
  readonly argumentsJson: string;
  readonly definitionJson: string;
  readonly causeCode: string;
  readonly causeText: string;
  /** The run is kept while it waits. */
  readonly isKept: boolean;
}

/** The registry answered, and will not take it, however often it is asked. */
export class ApprovalRejected extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ApprovalRejected';
  }
}

/** A request that has an outcome. */
export interface DecidedApproval extends FiledApproval {
  readonly namespace: string;
  readonly run: string;
}

/** Approval service of a registry. A failed request may be retried, unless it fails with ApprovalRejected. */
export interface NodeApprovals {
  open(asked: AskedApproval, signal: AbortSignal): Promise<FiledApproval>;
  /** Null: it is the caller's; otherwise why not. */
  claim(id: string, claim: string, call: BoundCall, argumentsHash: string, signal: AbortSignal): Promise<string | null>;
  withdraw(id: string, reason: string, signal: AbortSignal): Promise<void>;
  /** From now on, of all runs of its namespaces; null: nothing yet, and at first that it has begun. */
  decided(signal: AbortSignal): AsyncIterable<DecidedApproval | null>;
  /** Those of the requests that still wait. */
  waiting(ids: readonly string[], signal: AbortSignal): Promise<ReadonlySet<string>>;
  /** Takes back what a run has asked. */
  withdrawAll(namespace: string, run: string, reason: string, signal: AbortSignal): Promise<void>;
}
