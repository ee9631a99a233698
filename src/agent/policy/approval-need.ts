import type { ApprovalMode } from '../../server/records/server.ts';
import type { RuleVerdict } from './approval-rules.ts';

/** `ask`: a person has to say yes. */
export type ApprovalNeed = 'none' | 'ask' | 'denied';

/** What a record's mode and the rules come to for one call. */
export function approvalNeed(mode: ApprovalMode, { verdict }: RuleVerdict): ApprovalNeed {
  if (verdict === 'deny') return 'denied';
  return mode === 'never' || (mode === 'policy' && verdict === 'allow') ? 'none' : 'ask';
}
