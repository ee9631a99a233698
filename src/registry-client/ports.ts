import type { ApprovalStatus, BoundCall } from '../server/records/approval.ts';
import type { Identity, IssuerDescription } from '../server/records/permissions.ts';
import type { RecordIssue } from '../server/records/record-kind.ts';
import type { TaskRecord, TaskRevision } from '../server/records/task.ts';
import type { RegistrySource } from './source.ts';

/** Receives a record that this version cannot use. */
export type OnInvalidRecord = (id: string, issue: RecordIssue) => void;

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
  /** Time until a waiting request is denied or a grant expires, and time since the decision. */
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
  /** The run is parked while it waits. */
  readonly isKept: boolean;
}

/** The registry rejected the request; a retry would be rejected as well. */
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
  /** Null: the caller holds the grant; otherwise the reason for the refusal. */
  claim(id: string, claim: string, call: BoundCall, argumentsHash: string, signal: AbortSignal): Promise<string | null>;
  withdraw(id: string, reason: string, signal: AbortSignal): Promise<void>;
  /** Decisions from now on, for all runs of the node's namespaces. Null is a liveness message, sent first when the watch starts. */
  decided(signal: AbortSignal): AsyncIterable<DecidedApproval | null>;
  /** The requests among `ids` that are still waiting. */
  waiting(ids: readonly string[], signal: AbortSignal): Promise<ReadonlySet<string>>;
  /** Withdraws all requests of a run. */
  withdrawAll(namespace: string, run: string, reason: string, signal: AbortSignal): Promise<void>;
}

/** Resolves tokens to identities. */
export interface IdentityPort {
  /** The owner of the token with this sha256, in hex; the token itself is not sent. Null: unknown token. Rejects without a response. */
  identify(sha256: string, signal: AbortSignal): Promise<Identity | null>;
  /** How to verify a token of the registry's issuer that was signed like this. Null: no issuer. Rejects like `identify`. */
  issuer(
    signed: { readonly alg: string; readonly kid: string | null },
    signal: AbortSignal,
  ): Promise<IssuerDescription | null>;
}

/** The tasks of a registry, as a node follows them. */
export interface TaskPort extends RegistrySource<TaskRecord> {
  /** Null: there is no such revision, or it is no longer retained. */
  revision(taskId: string, revision: number, signal: AbortSignal): Promise<TaskRevision | null>;
  /** The module as received; the caller must compare the digest. Rejects a module of more than `maxBytes`. */
  module(sha256: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array>;
}
