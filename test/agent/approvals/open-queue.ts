import type { AskedCall } from '../../../src/agent/approvals/approval-record.ts';
import { ApprovalQueue, type ApprovalQueueOptions } from '../../../src/agent/approvals/service.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import type { ApproverRule } from '../../../src/config/registry/registry-config.ts';
import type { AuditEvent } from '../../../src/server/audit/event.ts';
import { noTrail } from '../../../src/server/audit/sms-trail.ts';
import type { Caller } from '../../../src/server/identity/caller.ts';
import {
  type Approval,
  approvalKind,
  type BoundCall,
  boundCallFields,
  saltedHash,
} from '../../../src/server/records/approval.ts';
import { createMemoryStoreOf } from '../../../src/server/store/local-store.ts';
import type { RegistryStore } from '../../../src/server/store/store.ts';

export const WAIT_MS = 60_000;
export const GRANT_MS = 10_000;
export const KEPT_GRANT_MS = 7 * 24 * 3_600_000;
export const KEEP_MS = 3_600_000;

/** A call that a node asks about. */
export function askedCall(more: Partial<AskedCall> = {}): AskedCall {
  return {
    ...{ run: 'run-1', ordinal: '5.1.1', task: 'notes', session: 'chat-1', server_id: 'fs', kind: 'tool' },
    ...{ tool_name: 'write_file', definition_sha256: 'd'.repeat(64), policy: '7:pp', purpose: 'call' },
    ...{ namespace: 'default', callId: 'call-1', nodeId: 'node-1', isKept: false },
    arguments: { path: '/data/x', content: 'a line' },
    definition: { name: 'write_file', description: 'Writes a file.' },
    cause: { code: 'always', text: 'its record asks for every call' },
    ...more,
  };
}

export const approverRule = (more: Partial<ApproverRule> = {}): ApproverRule => ({
  ...{ name: 'rule 1', namespaces: ['*'], servers: ['*'], tools: ['*'], approvers: null, needed: 1, allowSelf: false },
  ...more,
});

export const boundOf = (asked: AskedCall): BoundCall =>
  Object.fromEntries(boundCallFields.map((field) => [field, asked[field]])) as unknown as BoundCall;

export const newStore = () => createMemoryStoreOf(approvalKind);

/** A queue on a store in memory, with its audit events and counted decisions; `as` and `by` act as one caller. */
export async function openQueue(
  options: Partial<ApprovalQueueOptions> = {},
  store: RegistryStore<Approval> = newStore(),
) {
  const audited: AuditEvent[] = [];
  const counted: string[] = [];
  const queue = new ApprovalQueue(store, {
    rules: [],
    hasNames: true,
    waitMs: WAIT_MS,
    grantMs: GRANT_MS,
    keptGrantMs: KEPT_GRANT_MS,
    keepMs: KEEP_MS,
    maxKept: 100,
    maxWaiting: 1_000,
    trail: { ...noTrail, write: (event) => audited.push(event) },
    metrics: {
      decisions: { add: (_: number, labels: { decision: string }) => counted.push(labels.decision) },
    } as unknown as ApprovalQueueOptions['metrics'],
    ...options,
  });
  await queue.start();
  const as = (caller: Caller) => {
    return {
      open: (more: Partial<AskedCall> = {}) => queue.open(caller, askedCall(more)),
      decide: (id: string, decision: Approval['decision'], more: { reason?: string; ifModRevision?: number } = {}) => {
        const vote = { decision: decision ?? 'deny', reason: more.reason ?? null, ifModRevision: more.ifModRevision };
        return queue.decide(caller, id, vote);
      },
      /** Redeems the grant of a request; without `args`, with those that were allowed. */
      redeem: (
        approval: Approval,
        token = '1',
        { call = approval as BoundCall, args = null as JsonObject | null } = {},
      ) => {
        const hash = args === null ? approval.arguments_sha256 : saltedHash(approval.salt, args);
        return queue.redeem(caller, approval.approval_id, token.padStart(32, '0'), call, hash);
      },
      get: (id: string) => queue.get(caller, id),
      readWhole: (id: string) => queue.readWhole(caller, id),
      withdraw: (id: string, reason = 'not wanted') => queue.withdraw(caller, id, reason),
      withdrawAll: (namespaceOf: string, run: string) => queue.withdrawAll(caller, namespaceOf, run, 'the run ended'),
      whyNot: (approval: Approval) => queue.whyNot(caller, approval),
      isWaiting: (id: string) => queue.isWaiting(caller, id),
      namespaceFor: (given: string) => queue.namespaceFor(caller, given),
    };
  };
  const by = (actor: string | null, namespace: string | null = '*') =>
    as({ actor, role: 'approver', namespace, peer: null, via: 'http', method: 'none' });
  return { queue, store, audited, counted, as, by, node: by('node-1'), ann: by('ann'), bob: by('bob') };
}

export type OpenedQueue = Awaited<ReturnType<typeof openQueue>>;

/** A grant of a new request. */
export async function granted({ node, ann }: Pick<OpenedQueue, 'node' | 'ann'>) {
  const { approval_id: id } = await node.open();
  return ann.decide(id, 'allow_once');
}
