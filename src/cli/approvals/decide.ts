import type { ApprovalDecision } from '../../protocol/approval.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { APPROVALS_PATH, type JsonFlag, type SpearCommand, type SpearContext } from '../spear/command.ts';
import { printable } from '../table.ts';
import { outcomeText, type ShownApproval, wholeId } from './shown.ts';

interface DecideFlags extends JsonFlag {
  readonly reason: string | undefined;
}

export const allowApproval: SpearCommand<DecideFlags & { readonly session: boolean }> = (context) =>
  decide(context, context.flags.session ? 'allow_session' : 'allow_once');

export const denyApproval: SpearCommand<DecideFlags> = (context) => decide(context, 'deny');

async function decide(context: SpearContext<DecideFlags>, decision: ApprovalDecision): Promise<number> {
  const { flags, args, client, print } = context;
  const id = await wholeId(context, args[0] ?? '');
  const body = JSON.stringify({ decision, reason: flags.reason ?? null });
  const options = { body, contentType: 'application/json' };
  const { value } = await client.request('POST', `${APPROVALS_PATH}/${id}/decision`, options);
  const approval = value as unknown as ShownApproval;
  if (flags.json) print(`${JSON.stringify(approval)}\n`);
  else if (approval.status === 'waiting') {
    print(
      printable(`${id}: ${approval.votes.length} of ${approval.needed} approvals; the call is still pending`).concat(
        '\n',
      ),
    );
  } else print(`${printable(`${id}: ${outcomeText(approval)}`)}\n`);
  return spearExitCodes.ok;
}
