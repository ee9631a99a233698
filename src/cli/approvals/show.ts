import { readDefinition } from '../../policy/definition-hash.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { describeRequest } from '../run/approval-text.ts';
import { oneArgument, type SpearCommand } from '../spear/command.ts';
import { age, printable } from '../table.ts';
import { fetchApproval, outcomeText, type ShownApproval, wholeId } from './shown.ts';

const DEFAULT_COLUMNS = 100;

/** One request, as it would be shown on the terminal of its run. */
export const showApproval: SpearCommand = async (context) => {
  const { flags, print, say } = context;
  const id = await wholeId(context, oneArgument(flags, 'ID'));
  const approval = await fetchApproval(context, id, flags.full);
  if (flags.json) {
    print(`${JSON.stringify(approval)}\n`);
    return spearExitCodes.ok;
  }
  const columns = process.stdout.columns ?? DEFAULT_COLUMNS;
  const { lines } = describeRequest(requestOf(approval), { columns, full: flags.full });
  print(`${[...headOf(approval), ...lines].join('\n')}\n`);
  if (approval.arguments_shortened && !flags.full) say('something is left out or masked; --full shows all of it');
  if (approval.status === 'waiting' && approval.why_not) say(`not yours to decide: ${approval.why_not}`);
  return spearExitCodes.ok;
};

function headOf(approval: ShownApproval): string[] {
  const {
    approval_id: id,
    run,
    ordinal,
    node_id: node,
    requested_by: by,
    namespace,
    needed,
    votes,
    left_ms,
  } = approval;
  const left = left_ms === 0 ? '' : `, ${age(left_ms)} left`;
  const field = (name: string, text: string) => `  ${name.padEnd(8)}${printable(text)}`;
  return [
    printable(`${id}: ${outcomeText(approval)}${left}`),
    field('run', `${run}, call ${ordinal}`),
    field('asked', `by ${by ?? 'anybody'} on ${node}, namespace ${namespace}`),
    ...(needed > 1 ? [field('needs', `${needed} people${approval.rule === null ? '' : ` (${approval.rule})`}`)] : []),
    ...votes.map(({ by: who, decision, reason }) =>
      field('said', `${decision} by ${who ?? 'anybody'}${reason === null ? '' : `: ${reason}`}`),
    ),
  ];
}

/** As far as it is described. */
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
