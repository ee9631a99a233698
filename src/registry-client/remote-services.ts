import { type Client, Code, ConnectError, createClient, type Transport } from '@connectrpc/connect';
import { isJsonObject, parseJson } from '../base/json.ts';
import { ApprovalService, type Approval as WireApproval } from '../generated/proto/sms/approval_pb.ts';
import { IdentityService } from '../generated/proto/sms/identity_pb.ts';
import { type ApprovalStatus, approvalStatuses, type BoundCall } from '../server/records/approval.ts';
import { type Identity, isRole } from '../server/records/permissions.ts';
import {
  ApprovalRejected,
  type AskedApproval,
  type DecidedApproval,
  type FiledApproval,
  type IdentityPort,
  type NodeApprovals,
} from './ports.ts';

/** Codes that a retry would not change. */
const final: ReadonlySet<Code> = new Set([
  Code.FailedPrecondition,
  Code.InvalidArgument,
  Code.PermissionDenied,
  Code.Unimplemented,
]);

/** Approvals of a registry over the network. */
export class RemoteApprovals implements NodeApprovals {
  readonly #client: Client<typeof ApprovalService>;
  readonly #nodeId: string;

  constructor(transport: Transport, nodeId: string) {
    this.#client = createClient(ApprovalService, transport);
    this.#nodeId = nodeId;
  }

  async open({ call, namespace = null, ...asked }: AskedApproval, signal: AbortSignal): Promise<FiledApproval> {
    const request = { ...asked, namespace: namespace ?? '', call: toWire(call), nodeId: this.#nodeId };
    const { approval } = await this.#client.openApproval(request, { signal }).catch(explain);
    if (approval === undefined) throw new Error('the registry returned no approval');
    return read(approval);
  }

  async *decided(signal: AbortSignal): AsyncGenerator<DecidedApproval | null> {
    try {
      for await (const { approval } of this.#client.watchApprovals({}, { signal })) {
        if (approval === undefined) yield null;
        else yield { ...read(approval), namespace: approval.namespace, run: approval.run };
      }
    } catch (error) {
      explain(error);
    }
  }

  async waiting(ids: readonly string[], signal: AbortSignal): Promise<ReadonlySet<string>> {
    const { approvalIds } = await this.#client.waitingApprovals({ approvalIds: [...ids] }, { signal }).catch(explain);
    return new Set(approvalIds);
  }

  async withdrawAll(namespace: string, run: string, reason: string, signal: AbortSignal): Promise<void> {
    await this.#client.withdrawApproval({ namespace, run, reason }, { signal }).catch(explain);
  }

  async claim(approvalId: string, claim: string, call: BoundCall, argumentsSha256: string, signal: AbortSignal) {
    const request = { approvalId, claim, call: toWire(call), argumentsSha256 };
    const { refusal } = await this.#client.claimApproval(request, { signal }).catch(explain);
    return refusal === '' ? null : refusal;
  }

  async withdraw(approvalId: string, reason: string, signal: AbortSignal): Promise<void> {
    await this.#client.withdrawApproval({ approvalId, reason }, { signal }).catch(explain);
  }
}

function toWire({ task, submitted_by: submittedBy = null, ...call }: BoundCall) {
  return {
    run: call.run,
    ordinal: call.ordinal,
    ...(task === null ? {} : { task }),
    session: call.session,
    serverId: call.server_id,
    kind: call.kind,
    toolName: call.tool_name,
    definitionSha256: call.definition_sha256,
    policy: call.policy,
    purpose: call.purpose,
    ...(submittedBy === null ? {} : { submittedBy }),
  };
}

function read(wire: WireApproval): FiledApproval {
  const status = approvalStatuses.find((known) => known === wire.status);
  if (status === undefined)
    throw new ApprovalRejected(`the registry returned an unknown approval status ${JSON.stringify(wire.status)}`);
  return {
    id: wire.approvalId,
    status: status satisfies ApprovalStatus,
    salt: wire.salt,
    decision: wire.decision,
    reason: wire.reason,
    decidedBy: wire.decidedBy,
    leftMs: Number(wire.leftMs),
    ageMs: Number(wire.ageMs),
  };
}

function explain(error: unknown): never {
  if (!(error instanceof ConnectError)) throw error;
  const text = `the registry: ${error.message}`;
  if (final.has(error.code)) throw new ApprovalRejected(text, { cause: error });
  throw new Error(text, { cause: error });
}

/** Identities of a registry over the network. */
export class RemoteIdentities implements IdentityPort {
  readonly #client: Client<typeof IdentityService>;
  readonly #explain: (error: unknown) => never;

  constructor(transport: Transport, explain: (error: unknown) => never) {
    this.#client = createClient(IdentityService, transport);
    this.#explain = explain;
  }

  async identify(sha256: string, signal: AbortSignal): Promise<Identity | null> {
    const { owner } = await this.#client.identifyToken({ sha256 }, { signal }).catch(this.#explain);
    if (owner === undefined) return null;
    const { name, roles, namespace, readJournals, expiresAtMs } = owner;
    return {
      name,
      // A role of a later version permits nothing here.
      roles: roles.filter(isRole),
      namespace,
      mayReadJournals: readJournals,
      expiresAtMs: expiresAtMs === undefined ? null : Number(expiresAtMs),
    };
  }

  async issuer(signed: { readonly alg: string; readonly kid: string | null }, signal: AbortSignal) {
    const { alg, kid } = signed;
    const { issuer: found } = await this.#client
      .describeIssuer({ alg, ...(kid === null ? {} : { kid }) }, { signal })
      .catch((error: unknown) => {
        // A registry of an earlier version does not describe its issuer.
        if (error instanceof ConnectError && error.code === Code.Unimplemented) return { issuer: undefined };
        return this.#explain(error);
      });
    if (found === undefined) return null;
    const { issuer, audiences, nameClaim, rolesClaim, roles, journalValues, namespace, namespaceClaim } = found;
    return {
      ...{ issuer, audiences, nameClaim, rolesClaim, journalValues },
      roles: new Map(roles.map(({ value, roles: given }) => [value, given.filter(isRole)])),
      namespace: namespace ?? null,
      namespaceClaim: namespaceClaim ?? null,
      keys: found.keys.map((text) => parseJson(text)).filter(isJsonObject),
      nodeNamespace: found.nodeNamespace,
    };
  }
}
