import type { JsonObject } from '../../base/json.ts';
import type { ApprovalDecision, BoundCall } from '../../server/records/approval.ts';
import type { ApprovalAnswer, ApprovalRequest } from './decider.ts';

/** A yes that is kept elsewhere: it holds once it was taken there, and can be taken once. */
export interface GrantTicket {
  /** What it was asked for: see BoundCall. */
  readonly purpose: string;
  /** How long it may wait to be taken, and since when it is given. */
  readonly leftMs: number;
  readonly ageMs: number;
  readonly isClaimed: boolean;
  /** Null: it is ours. Otherwise why not; a refusal that is no word of the desk says that it could not be asked. */
  claim(call: BoundCall, args: JsonObject): Promise<ClaimRefusal | null>;
  /** Nobody will take it. */
  drop(why: string): void;
}

export interface ClaimRefusal {
  /** Whether it is worth asking anew: what was allowed is another by now, or is over. */
  readonly outdated: boolean;
  readonly message: string;
}

/** What somebody elsewhere decided. */
export class DeskAnswer implements ApprovalAnswer {
  readonly decision: ApprovalDecision;
  readonly reason: string;
  /** Null: nobody did. */
  readonly decidedBy: string | null;
  /** Null: it was denied. */
  readonly ticket: GrantTicket | null;

  constructor(decision: ApprovalDecision, reason: string, decidedBy: string | null, ticket: GrantTicket | null) {
    this.decision = decision;
    this.reason = reason;
    this.decidedBy = decidedBy;
    this.ticket = ticket;
  }
}

export interface DeskQuestion extends Omit<ApprovalRequest, 'deadlineMs'> {
  readonly bound: BoundCall;
  /** Whether the run may be taken up again and find its request: then it is left where it is. Asked at the end. */
  readonly isResumable: () => boolean;
}

/** A request that somebody has to decide about, for whoever watches over what a run waits for. */
export interface DeskWait {
  /** Its id. */
  readonly request: string;
  readonly question: DeskQuestion;
  /** No answer is taken any more: the run is given up, and finds its request when it goes on. */
  abandon(): void;
}

/** Told when it begins; what it gives is called when it is over. */
export type WatchWait = (wait: DeskWait) => () => void;

/**
 * Where requests outlive the process that makes them: they are found again by what they are bound to, and a yes is taken
 * there, once. It keeps the time itself.
 */
export interface ApprovalDesk {
  /** Never rejects; when the signal aborts nobody wants the answer. */
  ask(question: DeskQuestion): Promise<DeskAnswer>;
}
