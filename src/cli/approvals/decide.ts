import type { ApprovalDecision } from '../../protocol/approval.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { APPROVALS_PATH, oneArgument, type SpearCommand, type SpearContext } from '../spear/command.ts';
import { printable } from '../table.ts';
import { UsageError } from '../usage-error.ts';
import { outcomeText, type ShownApproval, wholeId } from './shown.ts';

export const allowApproval: SpearCommand = (context) =>
  decide(context, context.flags.session ? 'allow_session' : 'allow_once');

export const denyApproval: SpearCommand = (context) => {
  if (context.flags.session) throw new UsageError('--session: a denial is for the one call');
  return decide(context, 'deny');
};

async function decide(context: SpearContext, decision: ApprovalDecision): Promise<number> {
  const { flags, client, print } = context;
  const id = await wholeId(context, oneArgument(flags, 'ID'));
  const body = JSON.stringify({ decision, reason: flags.reason ?? null });
  const options = { body, contentType: 'application/json' };
  const { value } = await client.request('POST', `${APPROVALS_PATH}/${id}/decision`, options);
  const approval = value as unknown as ShownApproval;
  if (flags.json) print(`${JSON.stringify(approval)}\n`);
  else if (approval.status === 'waiting') {
    print(printable(`${id}: ${approval.votes.length} of ${approval.needed}, others have to allow it too`).concat('\n'));
  } else print(`${printable(`${id}: ${outcomeText(approval)}`)}\n`);
  return spearExitCodes.ok;
}
