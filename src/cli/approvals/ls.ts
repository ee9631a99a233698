import { approvalStatuses } from '../../protocol/approval.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { noArguments, type SpearCommand } from '../spear/command.ts';
import { age, table } from '../table.ts';
import { UsageError } from '../usage-error.ts';
import { fetchApprovals, outcomeText } from './shown.ts';

const EVERY = 'all';

export const listApprovals: SpearCommand = async (context) => {
  const { flags, print, say } = context;
  noArguments(flags);
  const status = flags.status ?? 'waiting';
  if (status !== EVERY && !approvalStatuses.some((known) => known === status)) {
    throw new UsageError(`--status ${status}: expected one of ${approvalStatuses.join(', ')}, ${EVERY}`);
  }
  const found = await fetchApprovals(context, status === EVERY ? '' : `&status=${status}`);
  if (flags.json) {
    print(`${JSON.stringify(found)}\n`);
    return spearExitCodes.ok;
  }
  const { approvals, total } = found;
  if (approvals.length === 0) say(status === 'waiting' ? 'nothing waits for a decision' : 'there are none');
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
      approval.requested_by ?? '-',
      approval.status === 'waiting' ? votesText(approval.votes.length, approval.needed) : outcomeText(approval),
    ]);
    print(table(['ID', 'AGE', 'LEFT', 'TASK', 'RUN', 'NODE', 'SERVER', 'TOOL', 'ASKED BY', 'STATUS'], rows));
  }
  if (total > approvals.length) say(`and ${total - approvals.length} more`);
  return spearExitCodes.ok;
};

const votesText = (votes: number, needed: number) => (needed === 1 ? 'waiting' : `waiting, ${votes} of ${needed}`);
