import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { type AskedCall, sizeProblem } from '../../agent/approvals/approval-record.ts';
import { type ApprovalQueue, QueueFull } from '../../agent/approvals/service.ts';
import { isJsonObject, type JsonObject, parseJson } from '../../base/json.ts';
import type { ApprovalService, ApprovalCall as WireCall } from '../../generated/proto/sms/approval_pb.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import { type Approval, type BoundCall, decidersOf } from '../../server/records/approval.ts';
import { EventReader } from '../event-reader.ts';
import { callerOf, toStatus } from './grpc-call.ts';

export interface ApprovalServiceDeps {
  readonly heartbeatMs: number;
  readonly watchers: { begin(): () => void };
  readonly log: ServiceLog;
}

/** What is asked about at once. */
const MAX_IDS = 1_000;

/** What nodes ask: about calls that need somebody's yes, and for that yes right before they are sent. */
export function approvalService(
  queue: ApprovalQueue,
  { heartbeatMs, watchers, log }: ApprovalServiceDeps,
): ServiceImpl<typeof ApprovalService> {
  const fail = (error: unknown): never => {
    if (error instanceof QueueFull) throw new ConnectError(error.message, Code.FailedPrecondition);
    throw toStatus(error, (reason) => log('error', 'grpc_failed', { reason: String(reason) }));
  };
  const toWire = (approval: Approval) => ({
    approvalId: approval.approval_id,
    status: approval.status,
    salt: approval.salt,
    decision: approval.decision ?? '',
    reason: approval.reason ?? '',
    decidedBy: decidersOf(approval),
    leftMs: BigInt(queue.leftMs(approval)),
    ageMs: BigInt(queue.ageMs(approval)),
    run: approval.run,
    namespace: approval.namespace,
  });

  return {
    async openApproval(request, { values }) {
      const caller = callerOf(values);
      const call = boundCall(request.call);
      const asked: AskedCall = {
        ...call,
        namespace: queue.namespaceFor(caller, request.namespace) ?? refuse('namespace is not accessible to this node'),
        callId: request.callId,
        nodeId: request.nodeId,
        arguments: jsonObject('arguments_json', request.argumentsJson),
        definition: jsonObject('definition_json', request.definitionJson),
        cause: { code: request.causeCode, text: request.causeText },
        isKept: request.isKept,
      };
      const problem = sizeProblem(asked);
      if (problem !== null) refuse(problem);
      return { approval: toWire(await queue.open(caller, asked).catch(fail)) };
    },

    watchApprovals({ run, namespace: given }, { signal, values }) {
      const caller = callerOf(values);
      const namespace = queue.namespaceFor(caller, given) ?? refuse('namespace is not accessible to this node');
      const mayName = given === '' ? queue.scope(caller) : (name: string) => name === namespace;
      const isWanted =
        run === ''
          ? (approval: Approval) => approval.status !== 'waiting' && mayName(approval.namespace)
          : (approval: Approval) => approval.run === run && approval.namespace === namespace;
      const end = watchers.begin();
      return watch(end);

      async function* watch(over: () => void) {
        const since = run === '' ? await queue.store.revision() : 0;
        const reader = new EventReader(queue.store.watch(since, signal)[Symbol.asyncIterator]());
        try {
          let silent = true;
          for (;;) {
            if (silent) yield {};
            const event = await reader.next(heartbeatMs).catch(fail);
            if (event === 'ended') break;
            silent = event === 'silence';
            if (event === 'silence') continue;
            for (const approval of event.upserts) {
              if (isWanted(approval)) yield { approval: toWire(approval) };
            }
          }
          if (signal.aborted) throw signal.reason;
        } finally {
          reader.close();
          over();
        }
      }
    },

    async claimApproval({ approvalId, claim, call, argumentsSha256 }, { values }) {
      if (!/^[0-9a-f]{32}$/.test(claim)) refuse('claim must be 32 hex digits');
      const caller = callerOf(values);
      const claimed = queue.redeem(caller, approvalId, claim, boundCall(call), argumentsSha256);
      return { refusal: (await claimed.catch(fail)) ?? '' };
    },

    async waitingApprovals({ approvalIds }, { values }) {
      const caller = callerOf(values);
      if (approvalIds.length > MAX_IDS) refuse(`approval_ids has more than ${MAX_IDS} entries`);
      const waiting = approvalIds.filter((id) => queue.isWaiting(caller, id));
      return { approvalIds: waiting };
    },

    async withdrawApproval({ approvalId, reason, run, namespace: given }, { values }) {
      const caller = callerOf(values);
      if (approvalId === '' && run !== '') {
        const namespace = queue.namespaceFor(caller, given) ?? refuse('namespace is not accessible to this node');
        await queue.withdrawAll(caller, namespace, run, reason).catch(fail);
      } else await queue.withdraw(caller, approvalId, reason).catch(fail);
      return {};
    },
  };
}

function boundCall(wire: WireCall | undefined): BoundCall {
  if (wire === undefined) return refuse('call is required');
  const { kind } = wire;
  if (kind !== 'tool' && kind !== 'resource' && kind !== 'prompt')
    return refuse('call.kind must be tool, resource or prompt');
  if (wire.run === '' || wire.ordinal === '') return refuse('call.run and call.ordinal are required');
  return {
    run: wire.run,
    ordinal: wire.ordinal,
    task: wire.task ?? null,
    session: wire.session,
    server_id: wire.serverId,
    kind,
    tool_name: wire.toolName,
    definition_sha256: wire.definitionSha256,
    policy: wire.policy,
    purpose: wire.purpose,
    submitted_by: wire.submittedBy || null,
  };
}

function jsonObject(name: string, text: string): JsonObject {
  const value = parseJson(text);
  return isJsonObject(value) ? value : refuse(`${name} must be a JSON object`);
}

function refuse(message: string): never {
  throw new ConnectError(message, Code.InvalidArgument);
}
