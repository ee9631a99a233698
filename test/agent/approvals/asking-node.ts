import { setTimeout } from 'node:timers/promises';
import {
  ApprovalClient,
  type ApprovalClientOptions,
  ApprovalConnection,
  type BoundRequest,
} from '../../../src/agent/approvals/client.ts';
import type { ApprovalRequest } from '../../../src/agent/approvals/request.ts';
import type { NodeApprovals } from '../../../src/registry-client/ports.ts';
import type { BoundCall } from '../../../src/server/records/approval.ts';
import { onStop, type TestSms } from '../../registry/running-sms.ts';

/** Between two looks. */
const PAUSE_MS = 5;

export const APPROVALS = '/admin/api/approvals';

export const boundCall: BoundCall = {
  run: 'run-1',
  ordinal: '5.1.1',
  task: 'notes',
  session: 'chat-1',
  server_id: 'fs',
  kind: 'tool',
  tool_name: 'write_file',
  definition_sha256: 'd'.repeat(64),
  policy: '7:pp',
  purpose: 'call',
};

const definition = {
  name: 'write_file',
  description: 'Writes a file.',
  inputSchema: { type: 'object' },
  outputSchema: null,
  annotations: null,
};

export function questionOf(
  fields: Partial<BoundRequest> = {},
  signal: AbortSignal = new AbortController().signal,
): BoundRequest {
  const bound = fields.bound ?? boundCall;
  const request: Omit<ApprovalRequest, 'deadlineMs'> = {
    task: bound.task,
    run: bound.run,
    session: bound.session,
    callId: 'call-1',
    ordinal: bound.ordinal,
    server: bound.server_id,
    kind: bound.kind,
    tool: bound.tool_name,
    arguments: { path: '/data/x', content: 'a line' },
    cause: { code: 'always', text: 'every call needs an approval' },
    definition,
    changes: [],
    signal,
  };
  return { ...request, bound, isResumable: () => false, ...fields };
}

/** Approval client of a node of this registry; closed with the test. */
export function clientAt(sms: TestSms, submittedBy: string | null = null): ApprovalClient {
  return clientOf(sms.source().approvals('node-1'), { submittedBy });
}

/** An approval client with a connection that only it uses; both are closed with the test. */
export function clientOf(port: NodeApprovals, more: Partial<ApprovalClientOptions> = {}): ApprovalClient {
  const connection = new ApprovalConnection(port, () => {});
  const client = new ApprovalClient({ connection, fileWithinMs: 5_000, ...more });
  onStop(async () => {
    await client.close();
    await connection.close();
  });
  return client;
}

export interface Listed {
  readonly approval_id: string;
  readonly status: string;
  readonly mod_revision: number;
  readonly decision: string | null;
  readonly reason: string | null;
  readonly decided_by: readonly string[];
  readonly arguments: Readonly<Record<string, unknown>>;
}

export async function listed(sms: TestSms, query = ''): Promise<readonly Listed[]> {
  const { body } = await sms.http('GET', `${APPROVALS}${query}`);
  return body.approvals as readonly Listed[];
}

/** Waits until so many wait. */
export async function waiting(sms: TestSms, count = 1): Promise<readonly Listed[]> {
  for (;;) {
    const found = await listed(sms, '?status=waiting');
    if (found.length >= count) return found;
    await setTimeout(PAUSE_MS);
  }
}

export function decide(sms: TestSms, id: string, decision: string, more: { reason?: string; token?: string } = {}) {
  const { reason, token } = more;
  const options = { json: { decision, reason: reason ?? null }, ...(token === undefined ? {} : { token }) };
  return sms.http('POST', `${APPROVALS}/${id}/decision`, options);
}
