import { cutText } from '../../base/cut-text.ts';
import { type AuditEvent, NO_DECIDER } from '../../server/audit/event.ts';
import type { ApprovalMode } from '../../server/records/server.ts';
import type { RuleVerdict } from '../policy/approval-rules.ts';
import type { ApprovalCause } from './decider.ts';
import { DeskAnswer } from './desk.ts';
import type { ApprovalOutcome } from './pending.ts';

const MAX_REASON_CHARS = 500;

type DecidedEvent = Extract<AuditEvent, { event: 'approval.decided' }>;
export type Decided = Pick<DecidedEvent, 'status' | 'decision' | 'decided_by'> & {
  readonly reason?: string | undefined;
  readonly duration_ms?: number;
};

/** How a question ended, in the words of the trail. */
export function inTheTrail(outcome: ApprovalOutcome, decidedBy: string): Decided {
  switch (outcome.kind) {
    case 'answered': {
      const { answer } = outcome;
      const { decision } = answer;
      const by = answer instanceof DeskAnswer ? deskName(answer) : decidedBy;
      const reason = answer.reason === '' ? undefined : answer.reason;
      return { status: decision === 'deny' ? 'denied' : 'allowed', decision, decided_by: by, reason };
    }
    case 'covered':
      return { status: 'allowed', decision: 'allow_session', decided_by: decidedBy, reason: 'by another decision' };
    case 'timeout':
      return { status: 'denied', decision: 'timeout', decided_by: NO_DECIDER };
    case 'withdrawn':
      return { status: 'denied', decision: 'cancelled', decided_by: NO_DECIDER, reason: outcome.error.message };
  }
}

const deskName = ({ decidedBy }: DeskAnswer) => (decidedBy === null ? NO_DECIDER : `sms: ${decidedBy}`);

/** Why somebody is asked, as a sentence. */
export function causeOf(mode: ApprovalMode, verdict: RuleVerdict): ApprovalCause {
  if (mode === 'always') return { code: 'always', text: 'every call needs an approval (approval_policy: always)' };
  if (verdict.layer === null) return { code: 'no_rule', text: 'no rule matches the call (approval_policy: policy)' };
  return { code: 'rule', text: `${ruleName(verdict)} requires an approval` };
}

export const ruleName = ({ layer, rule }: RuleVerdict) => `${JSON.stringify(rule)} of the ${layer}'s approval rules`;

/** A reason comes from whoever decided, and goes to the model and into the trail. */
export const cutReason = (text: string) => cutText(text, MAX_REASON_CHARS);
