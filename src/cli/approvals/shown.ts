import type { JsonObject } from '../../base/json.ts';
import type { Approval } from '../../protocol/approval.ts';
import { RequestError } from '../api-client.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { APPROVALS_PATH, type SpearContext } from '../spear/command.ts';
import { UsageError } from '../usage-error.ts';

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
