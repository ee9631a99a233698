import { setTimeout } from 'node:timers/promises';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { readDefinition } from '../../agent/policy/definition-hash.ts';
import { type JsonObject, parseJson } from '../../base/json.ts';
import { backoffMs } from '../../base/timing.ts';
import type { Approval, ApprovalDecision } from '../../server/records/approval.ts';
import { RequestError } from '../api-client.ts';
import { spearExitCodes, UsageError } from '../exit-codes.ts';
import { age, printable, table } from '../formatting.ts';
import { describeRequest } from '../run/approval-prompt.ts';
import { APPROVALS_PATH, type JsonFlag, type SpearCommand, type SpearContext } from '../spear/command.ts';

/** An approval request in responses of the admin API; in a list without definition and changes. */
export interface ShownApproval extends Omit<Approval, 'salt' | 'claim' | 'epoch'> {
  readonly arguments_shortened: boolean;
  readonly changed: boolean;
  readonly decided_by: readonly string[];
  readonly left_ms: number;
  readonly why_not?: string | null;
}

const MOST = 1_000;

export async function fetchApprovals({ client }: Pick<SpearContext, 'client'>, query: string) {
  const { value } = await client.request('GET', `${APPROVALS_PATH}?limit=${MOST}${query}`);
  return value as unknown as { readonly approvals: readonly ShownApproval[]; readonly total: number };
}

/** Completes an unambiguous prefix of an id. */
export async function wholeId(context: Pick<SpearContext, 'client'>, given: string): Promise<string> {
  if (!/^[0-9a-f]{1,16}(-\d{0,2})?$/.test(given))
    throw new UsageError(`${JSON.stringify(given)} is not an approval id`);
  if (/^[0-9a-f]{16}-\d{1,2}$/.test(given)) return given;
  const { approvals } = await fetchApprovals(context, '');
  const begun = approvals.filter(({ approval_id: id }) => id.startsWith(given));
  const open = begun.filter(({ status }) => status === 'waiting');
  const [found, other] = open.length > 0 ? open : begun;
  if (found === undefined) throw new RequestError(`no approval ${given}`, spearExitCodes.failed);
  if (other !== undefined) throw new UsageError(`${given}: ambiguous id prefix; add more characters`);
  return found.approval_id;
}

export async function fetchApproval(
  { client }: Pick<SpearContext, 'client'>,
  id: string,
  full: boolean,
): Promise<ShownApproval> {
  const { value } = await client.request('GET', `${APPROVALS_PATH}/${id}`);
  const approval = value as unknown as ShownApproval;
  if (!full) return approval;
  const whole = await client.request('GET', `${APPROVALS_PATH}/${id}/arguments`);
  return { ...approval, arguments: (whole.value as { arguments: JsonObject }).arguments };
}

/** `denied by ann: not now`. */
export function outcomeText({ status, decided_by: by, reason }: ShownApproval): string {
  const who = by.length === 0 ? '' : ` by ${by.join(' and ')}`;
  return `${status}${who}${reason === null ? '' : `: ${reason}`}`;
}

export const listApprovals: SpearCommand<JsonFlag & { readonly status: string }> = async (context) => {
  const { flags, print, say } = context;
  const { status } = flags;
  const found = await fetchApprovals(context, status === 'all' ? '' : `&status=${status}`);
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
      approval.submitted_by ?? approval.requested_by ?? '-',
      approval.node_id,
      approval.server_id,
      approval.tool_name,
      approval.status === 'waiting' ? votesText(approval.votes.length, approval.needed) : outcomeText(approval),
    ]);
    print(table(['ID', 'AGE', 'LEFT', 'TASK', 'RUN', 'BY', 'NODE', 'SERVER', 'TOOL', 'STATUS'], rows));
  }
  if (total > approvals.length) say(`… and ${total - approvals.length} more`);
  return spearExitCodes.ok;
};

const votesText = (votes: number, needed: number) => (needed === 1 ? 'waiting' : `waiting, ${votes} of ${needed}`);

const DEFAULT_COLUMNS = 100;
/** The registry bounds what it stores, and this output can be piped. */
const allLines = { maxLines: Number.POSITIVE_INFINITY } as const;

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
  const { lines } = describeRequest(requestOf(approval), {
    columns,
    full: flags.full,
    ...(flags.full ? allLines : {}),
  });
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
    field('by', approval.submitted_by ?? approval.requested_by ?? 'an unauthenticated caller'),
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

interface DecideFlags extends JsonFlag {
  readonly reason: string | undefined;
}

interface AllowFlags extends DecideFlags {
  readonly session: boolean;
  readonly yes: boolean;
}

/** Prints all arguments before it decides. Those that the normal view would cut or mask need --yes after that. */
export const allowApproval: SpearCommand<AllowFlags> = async (context) => {
  const { flags, args, say } = context;
  const id = await wholeId(context, args[0] ?? '');
  const approval = await fetchApproval(context, id, false);
  if (approval.status === 'waiting') {
    const isHidden = hidesArguments(approval);
    const whole = isHidden ? await fetchApproval(context, id, true) : approval;
    const { lines } = describeRequest(requestOf(whole), { columns: DEFAULT_COLUMNS, full: true, ...allLines });
    const shown = [...headOf(whole), ...lines];
    if (flags.json) for (const line of shown) say(line);
    else context.print(`${shown.join('\n')}\n`);
    if (isHidden && !flags.yes) {
      say('nothing was decided: read all arguments, then allow them with --yes');
      return spearExitCodes.failed;
    }
  }
  return decide(context, id, flags.session ? 'allow_session' : 'allow_once');
};

function hidesArguments(approval: ShownApproval): boolean {
  const normal = describeRequest(requestOf(approval), { columns: DEFAULT_COLUMNS, full: false });
  return approval.arguments_shortened || normal.hidesArguments;
}

export const denyApproval: SpearCommand<DecideFlags> = async (context) =>
  decide(context, await wholeId(context, context.args[0] ?? ''), 'deny');

async function decide(context: SpearContext<DecideFlags>, id: string, decision: ApprovalDecision): Promise<number> {
  const { flags, client, print } = context;
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

const backoff = { firstMs: 200, maxMs: 5_000 };

/** Prints requests and decisions as they happen. Reconnects after a lost connection and prints what it missed. */
export const watchApprovals: SpearCommand = async (context) => {
  const interrupt = new AbortController();
  const stop = () => interrupt.abort();
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
  try {
    await follow(context, interrupt.signal);
  } finally {
    process.off('SIGINT', stop);
    process.off('SIGTERM', stop);
  }
  return spearExitCodes.ok;
};

async function follow(context: SpearContext, signal: AbortSignal): Promise<void> {
  const { say } = context;
  const printed = new Map<string, number>();
  let failures = 0;
  let isFirst = true;
  while (!signal.aborted) {
    try {
      await listen(context, signal, async () => {
        if (failures > 0) say('reconnected to the registry');
        failures = 0;
        await printNew(context, printed, isFirst);
        isFirst = false;
      });
    } catch (error) {
      if (!(error instanceof RequestError) || signal.aborted) break;
      // A refused request would be refused again.
      if (isFirst || error.exitCode !== spearExitCodes.unreachable) throw error;
    }
    if (signal.aborted) break;
    failures += 1;
    if (failures === 1) say('connection to the registry lost; reconnecting');
    await setTimeout(backoffMs(backoff, failures, Math), undefined, { signal }).catch(() => {}); // aborted
  }
}

/** Calls back at the start and at every change, until the connection ends. */
async function listen({ client }: SpearContext, signal: AbortSignal, changed: () => Promise<void>): Promise<void> {
  const response = await client.open('GET', `${APPROVALS_PATH}/events`, {
    headers: { accept: 'text/event-stream' },
    signal,
  });
  const events: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => events.push(event) });
  const text = new TextDecoder();
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      parser.feed(text.decode(chunk, { stream: true }));
      const isNew = events.splice(0).some(({ data }) => parseJson(data) !== undefined);
      if (isNew) await changed();
    }
  } catch (error) {
    if (error instanceof RequestError) throw error;
  }
}

/** Prints requests that changed since the last call; the first call prints only pending ones. */
async function printNew(context: SpearContext, printed: Map<string, number>, isFirst: boolean): Promise<void> {
  const { approvals } = await fetchApprovals(context, '');
  for (const approval of [...approvals].sort((a, b) => a.mod_revision - b.mod_revision)) {
    const { approval_id: id, mod_revision: revision, status } = approval;
    if ((printed.get(id) ?? 0) >= revision) continue;
    printed.set(id, revision);
    if (!isFirst || status === 'waiting') context.print(line(approval, context.flags.json));
  }
}

function line(approval: ShownApproval, json: boolean): string {
  if (json) return `${JSON.stringify(approval)}\n`;
  const { approval_id: id, task, server_id: server, tool_name: tool, status, needed, votes } = approval;
  const what = `${task === null ? '' : `${task}: `}${server} ${tool}`;
  const more = status === 'waiting' && needed > 1 ? ` (${votes.length} of ${needed})` : '';
  return `${printable(`${new Date(approval.updated_at_ms).toISOString()} ${id} ${what} ${outcomeText(approval)}${more}`)}\n`;
}
