import { spearExitCodes } from '../exit-codes.ts';
import type { JsonFlag, SpearCommand } from '../spear/command.ts';
import { age, table } from '../table.ts';
import { fetchApprovals, outcomeText } from './shown.ts';

const EVERY = 'all';

export const listApprovals: SpearCommand<JsonFlag & { readonly status: string }> = async (context) => {
  const { flags, print, say } = context;
  const { status } = flags;
  const found = await fetchApprovals(context, status === EVERY ? '' : `&status=${status}`);
  if (flags.json) {
    print(`${JSON.stringify(found)}\n`);
    return spearExitCodes.ok;
  }
  const { approvals, total } = found;
  if (approvals.length === 0) say(status === 'waiting' ? 'no pending approvals' : 'no approvals');
  else {
    const rows = approvals.map((approval) => [
      approval.approval_id,
      age(Math.max(0, Date.now() - approval.created_at_ms)),
      approval.left_ms === 0 ? '-' : age(approval.left_ms),
      approval.task ?? '-',
      approval.run,
      approval.node_id,
      approval.server_id,
      approval.tool_name,
      approval.status === 'waiting' ? votesText(approval.votes.length, approval.needed) : outcomeText(approval),
    ]);
    print(table(['ID', 'AGE', 'LEFT', 'TASK', 'RUN', 'NODE', 'SERVER', 'TOOL', 'STATUS'], rows));
  }
  if (total > approvals.length) say(`… and ${total - approvals.length} more`);
  return spearExitCodes.ok;
};

const votesText = (votes: number, needed: number) => (needed === 1 ? 'waiting' : `waiting, ${votes} of ${needed}`);
