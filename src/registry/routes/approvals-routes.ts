import { listedApproval, shownApproval } from '../../agent/approvals/approval-record.ts';
import { AlreadyDecided, type ApprovalQueue, MayNotDecide } from '../../agent/approvals/service.ts';
import type { JsonObject } from '../../base/json.ts';
import { cutText } from '../../base/text.ts';
import { type HttpReply, jsonReply } from '../../server/http/http-reply.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { Route } from '../../server/http/route.ts';
import { etag, type HttpCall, jsonBody, writeCondition } from '../../server/http/route.ts';
import type { Caller } from '../../server/identity/caller.ts';
import { type Approval, approvalDecisions, approvalLimits, approvalStatuses } from '../../server/records/approval.ts';
import { StoreError } from '../../server/store/store.ts';
import { eventsRoute } from './events-routes.ts';

export const APPROVALS_PATH = '/admin/api/approvals';

const MAX_BODY_BYTES = 16 * 1024;
const DEFAULT_LISTED = 200;
const MAX_LISTED = 1_000;

/** What people do with requests: look at them, and decide. */
export function approvalsRoutes(queue: ApprovalQueue): Route[] {
  const one = `${APPROVALS_PATH}/{id}`;
  const route = (
    method: Route['method'],
    path: string,
    needs: 'view' | 'decide',
    run: (call: HttpCall) => Promise<HttpReply>,
  ): Route => ({ method, path, needs, namespaced: true, run: (call) => run(call).catch(asApprovalProblem) });
  return [
    eventsRoute(queue.store, {
      path: `${APPROVALS_PATH}/events`,
      needs: 'view',
      sees: (caller) => {
        const mayName = queue.scope(caller);
        return ({ namespace }) => mayName(namespace);
      },
    }),
    route('GET', APPROVALS_PATH, 'view', (call) => list(queue, call)),
    route('GET', one, 'view', (call) => get(queue, call)),
    route('GET', `${one}/arguments`, 'decide', (call) => wholeArguments(queue, call)),
    route('POST', `${one}/decision`, 'decide', (call) => decide(queue, call)),
  ];
}

async function list(queue: ApprovalQueue, { query, caller }: HttpCall): Promise<HttpReply> {
  const status = query.get('status');
  if (status !== null && !approvalStatuses.some((known) => known === status)) {
    throw new HttpProblem(400, 'invalid-query', `status: expected one of ${approvalStatuses.join(', ')}`);
  }
  const limit = Number(query.get('limit') ?? DEFAULT_LISTED);
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LISTED) {
    throw new HttpProblem(400, 'invalid-query', `limit: expected a whole number from 1 to ${MAX_LISTED}`);
  }
  const wanted = (['run', 'server_id', 'tool_name', 'task', 'namespace'] as const).flatMap((field) => {
    const value = query.get(field);
    return value === null ? [] : [{ field, value }];
  });
  const mayName = queue.scope(caller);
  const { epoch, revision, records } = await queue.store.list();
  const matching = records
    .filter((approval) => mayName(approval.namespace) && (status === null || approval.status === status))
    .filter((approval) => wanted.every(({ field, value }) => approval[field] === value))
    .sort((a, b) => b.created_at_ms - a.created_at_ms);
  const shown = matching.slice(0, limit).map((approval) => listedApproval(approval, queue.leftMs(approval)));
  return jsonReply(200, { revision, epoch, approvals: shown, total: matching.length });
}

async function get(queue: ApprovalQueue, { id, caller }: HttpCall): Promise<HttpReply> {
  return shown(queue, caller, await queue.get(caller, id));
}

async function wholeArguments(queue: ApprovalQueue, { id, caller }: HttpCall): Promise<HttpReply> {
  const approval = await queue.readWhole(caller, id);
  return jsonReply(200, { approval_id: id, arguments: approval.arguments });
}

async function decide(queue: ApprovalQueue, call: HttpCall): Promise<HttpReply> {
  const condition = writeCondition(call.headers);
  const body = await jsonBody(call, MAX_BODY_BYTES);
  const decision = approvalDecisions.find((known) => known === body.decision);
  if (decision === undefined) {
    throw new HttpProblem(400, 'invalid-body', `decision: expected one of ${approvalDecisions.join(', ')}`);
  }
  const ifModRevision = condition.kind === 'at_revision' ? condition.modRevision : undefined;
  const { id, caller } = call;
  const vote = { decision, reason: reasonOf(body), ifModRevision };
  return shown(queue, caller, await queue.decide(caller, id, vote));
}

function reasonOf({ reason = null }: JsonObject): string | null {
  if (reason !== null && typeof reason !== 'string') {
    throw new HttpProblem(400, 'invalid-body', 'reason: expected a string');
  }
  return reason === null || reason.trim() === '' ? null : cutText(reason, approvalLimits.reasonChars);
}

function shown(queue: ApprovalQueue, caller: Caller, approval: Approval): HttpReply {
  const json = shownApproval(approval, queue.leftMs(approval), queue.whyNot(caller, approval));
  return jsonReply(200, json, { etag: etag(approval.mod_revision) });
}

/** Whoever came second is told who came first, and what they said. */
function asApprovalProblem(error: unknown): never {
  if (error instanceof AlreadyDecided) throw new HttpProblem(409, 'already-decided', error.message);
  if (error instanceof MayNotDecide) throw new HttpProblem(403, 'not-an-approver', error.message);
  if (error instanceof StoreError && error.code === 'not_found') {
    throw new HttpProblem(404, 'no-such-approval', 'there is no such approval');
  }
  throw error;
}
