import type { Approval, ApprovalDecision } from '../../../server/records/approval.ts';
import { closed } from './closed.ts';

export interface Vote {
  readonly decision: ApprovalDecision;
  readonly reason: string | null;
  /** Of the request that was looked at; undefined: whatever it is. */
  readonly ifModRevision?: number | undefined;
}

export interface Voting {
  /** How many have to allow it. */
  readonly needed: number;
  readonly by: string | null;
  /** The person behind that name. */
  readonly person: string | null;
  readonly now: number;
}

/** The request with one more vote: one who denies is enough, of those who allow as many as are needed. */
export function counted(approval: Approval, { decision, reason }: Vote, { needed, by, person, now }: Voting): Approval {
  const other = person === null || person === by ? {} : { person };
  const votes = [...approval.votes, { by, ...other, decision, reason, at_ms: now }];
  const voted = { ...approval, needed, votes };
  if (decision === 'deny') {
    return closed({ ...voted, decision, reason, decided_at_ms: now }, 'denied');
  }
  if (votes.length < needed) return voted;
  // Where they do not mean the same, the least that all of them allow.
  const agreed = votes.every((vote) => vote.decision === 'allow_session') ? 'allow_session' : 'allow_once';
  const expires = now + approval.grant_ms;
  return { ...voted, status: 'granted', decision: agreed, reason, decided_at_ms: now, expires_at_ms: expires };
}
