import { readDefinition } from '../../policy/definition-hash.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { describeRequest } from '../run/approval-text.ts';
import type { JsonFlag, SpearCommand } from '../spear/command.ts';
import { age, printable } from '../table.ts';
import { fetchApproval, outcomeText, type ShownApproval, wholeId } from './shown.ts';

const DEFAULT_COLUMNS = 100;

/** One request, as the prompt of spear-run shows it. */
export const showApproval: SpearCommand<JsonFlag & { readonly full: boolean }> = async (context) => {
  const { flags, args, print, say } = context;
  const id = await wholeId(context, args[0] ?? '');
  const approval = await fetchApproval(context, id, flags.full);
  if (flags.json) {
    print(`${JSON.stringify(approval)}\n`);
    return spearExitCodes.ok;
  }
  const columns = process.stdout.columns ?? DEFAULT_COLUMNS;
  const { lines } = describeRequest(requestOf(approval), { columns, full: flags.full });
  print(`${[...headOf(approval), ...lines].join('\n')}\n`);
  if (approval.arguments_shortened && !flags.full) say('some values are shortened or masked; --full shows them');
  if (approval.status === 'waiting' && approval.why_not) say(`you cannot decide this request: ${approval.why_not}`);
  return spearExitCodes.ok;
};

function headOf(approval: ShownApproval): string[] {
  const { approval_id: id, run, ordinal, node_id: node, namespace, needed, votes, left_ms } = approval;
  const left = left_ms === 0 ? '' : `, ${age(left_ms)} left`;
  const field = (name: string, text: string) => `  ${name.padEnd(8)}${printable(text)}`;
  return [
    printable(`${id}: ${outcomeText(approval)}${left}`),
    field('run', `${run}, call ${ordinal}`),
    field('node', `${node}, namespace ${namespace}`),
    ...(needed > 1
      ? [field('needs', `${needed} approvers${approval.rule === null ? '' : ` (${approval.rule})`}`)]
      : []),
    ...votes.map(({ by: who, decision, reason }) =>
      field('vote', `${decision} by ${who ?? 'an unauthenticated caller'}${reason === null ? '' : `: ${reason}`}`),
    ),
  ];
}

/** The fields that are printed. */
function requestOf(approval: ShownApproval): Parameters<typeof describeRequest>[0] {
  return {
    task: approval.task,
    run: approval.run,
    session: approval.session,
    callId: approval.call_id,
    ordinal: approval.ordinal,
    server: approval.server_id,
    kind: approval.kind,
    tool: approval.tool_name,
    arguments: approval.arguments,
    cause: { code: 'rule', text: approval.cause.text },
    definition: readDefinition(approval.definition),
    changes: approval.changes,
    deadlineMs: approval.expires_at_ms,
    signal: new AbortController().signal,
  };
}
