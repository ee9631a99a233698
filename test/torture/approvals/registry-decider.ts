import { ApprovalClient, ApprovalConnection } from '../../../src/agent/approvals/client.ts';
import { ApprovalQueue } from '../../../src/agent/approvals/service.ts';
import { isJsonObject, type JsonObject, parseJson } from '../../../src/base/json.ts';
import type { FiledApproval, NodeApprovals } from '../../../src/registry-client/ports.ts';
import { noTrail } from '../../../src/server/audit/sms-trail.ts';
import { Caller } from '../../../src/server/identity/caller.ts';
import { type Approval, type ApprovalDecision, approvalKind } from '../../../src/server/records/approval.ts';
import { createMemoryStoreOf } from '../../../src/server/store/local-store.ts';

const HOUR_MS = 3_600_000;
const caller = Caller.process('torture');

/** The people of a registry who allow everything, without the network between: its queue, and a node's desk. */
export function registryThat(decision: ApprovalDecision): ApprovalClient {
  const queue = new ApprovalQueue(createMemoryStoreOf(approvalKind), {
    rules: [],
    hasNames: false,
    waitMs: HOUR_MS,
    grantMs: HOUR_MS,
    keptGrantMs: HOUR_MS,
    keepMs: HOUR_MS,
    maxKept: 100,
    maxWaiting: 100,
    trail: noTrail,
    metrics: { decisions: { add: () => {} } } as never,
  });
  const started = queue.start();
  const filed = (approval: Approval): FiledApproval => ({
    id: approval.approval_id,
    status: approval.status,
    salt: approval.salt,
    decision: approval.decision ?? '',
    reason: '',
    decidedBy: ['somebody'],
    leftMs: queue.leftMs(approval),
    ageMs: queue.ageMs(approval),
  });
  const port: NodeApprovals = {
    async open({ call, callId, argumentsJson, definitionJson, causeCode, causeText, isKept }) {
      await started;
      const cause = { code: causeCode, text: causeText };
      const given = { arguments: objectOf(argumentsJson), definition: objectOf(definitionJson), cause, isKept };
      const asked = await queue.open(caller, { ...call, namespace: 'default', callId, nodeId: 'node-1', ...given });
      return filed(await queue.decide(caller, asked.approval_id, { decision, reason: null }));
    },
    async *decided() {},
    waiting: async () => new Set(),
    withdrawAll: async () => {},
    claim: (id, claim, call, hash) => queue.redeem(caller, id, claim, call, hash),
    withdraw: (id, reason) => queue.withdraw(caller, id, reason),
  };
  return new ApprovalClient({ connection: new ApprovalConnection(port, () => {}), fileWithinMs: HOUR_MS });
}

function objectOf(text: string): JsonObject {
  const value = parseJson(text);
  return isJsonObject(value) ? value : {};
}
