import { type Approval, decidersOf } from '../../../server/records/approval.ts';

/** Somebody was faster, or its time is over. Says who and what. */
export class AlreadyDecided extends Error {
  readonly approval: Approval;

  constructor(approval: Approval) {
    super(`the approval is already ${approval.status}${by(approval)}`);
    this.name = 'AlreadyDecided';
    this.approval = approval;
  }
}

/** A rule says that it is not theirs to decide. */
export class MayNotDecide extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'MayNotDecide';
  }
}

/** More requests than are kept. */
export class QueueFull extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'QueueFull';
  }
}

function by(approval: Approval): string {
  const who = decidersOf(approval);
  const reason = approval.reason === null ? '' : `: ${approval.reason}`;
  return `${who.length === 0 ? '' : `, ${approval.decision ?? ''} by ${who.join(' and ')}`}${reason}`;
}
