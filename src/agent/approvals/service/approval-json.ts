import { type Approval, decidersOf, isClosed } from '../../../server/records/approval.ts';
import { shortenArguments } from '../shown-arguments.ts';

/** What a list has of a request. Arguments are masked and cut; `arguments_shortened` says whether there is more to see. */
export function listedApproval(approval: Approval, leftMs: number) {
  const { salt: _salt, claim: _claim, epoch: _epoch, definition: _definition, changes, ...shown } = approval;
  const { value, shortened } = shortenArguments(approval.arguments);
  return {
    ...shown,
    arguments: value,
    arguments_shortened: !isClosed(approval) && shortened,
    changed: changes.length > 0,
    decided_by: decidersOf(approval),
    left_ms: isClosed(approval) ? 0 : leftMs,
  };
}

/** The whole of it, for whoever decides. `whyNot`: why they may not; null: they may. */
export function shownApproval(approval: Approval, leftMs: number, whyNot: string | null) {
  const { definition, changes } = approval;
  return { ...listedApproval(approval, leftMs), definition, changes, why_not: whyNot };
}
