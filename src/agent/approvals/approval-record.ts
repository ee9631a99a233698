import { randomBytes } from 'node:crypto';
import { canonicalJson, type JsonObject, type JsonValue } from '../../base/json.ts';
import { startOf } from '../../base/text.ts';
import type { ApproverRule } from '../../config/registry/registry-config.ts';
import { NO_DECIDER } from '../../server/audit/event.ts';
import { redactArguments } from '../../server/audit/redact.ts';
import {
  type Approval,
  type ApprovalDecision,
  approvalId,
  approvalLimits,
  type BoundCall,
  boundCallFields,
  type DefinitionChange,
  decidersOf,
  isClosed,
  saltedHash,
} from '../../server/records/approval.ts';
import type { RegistryListing } from '../../server/records/record-kind.ts';
import { hashDefinition, readDefinition } from '../policy/definition-hash.ts';
import { definitionChanges, shortenArguments } from './presentation.ts';

/** A call for which a node requests an approval. */
export interface AskedCall extends BoundCall {
  readonly namespace: string;
  readonly callId: string;
  readonly nodeId: string;
  readonly arguments: JsonObject;
  readonly definition: JsonObject;
  readonly cause: Approval['cause'];
  /** The run may be parked while the request is pending, so the grant stays valid for longer. */
  readonly isKept: boolean;
}

/** What the registry adds to a request. */
export interface Asking {
  readonly round: number;
  readonly epoch: string;
  readonly requestedBy: string | null;
  /** The person who submitted the run; null or absent: unknown. */
  readonly submitter?: string | null;
  readonly rule: ApproverRule | null;
  readonly changes: readonly DefinitionChange[];
  readonly now: number;
  readonly waitMs: number;
  /** How long a grant may wait for its call. */
  readonly grantMs: number;
}

export function newRequest(asked: AskedCall, asking: Asking): Approval {
  const { round, epoch, requestedBy, rule, changes, now, waitMs, grantMs } = asking;
  const salt = randomBytes(16).toString('hex');
  const call = Object.fromEntries(boundCallFields.map((field) => [field, asked[field]])) as unknown as BoundCall;
  return {
    ...call,
    approval_id: approvalId(asked.namespace, asked, round),
    namespace: asked.namespace,
    epoch,
    status: 'waiting',
    call_id: asked.callId,
    node_id: asked.nodeId,
    requested_by: requestedBy,
    submitted_by: asked.submitted_by ?? null,
    ...(asking.submitter == null ? {} : { submitter: asking.submitter }),
    cause: asked.cause,
    arguments: asked.arguments,
    arguments_sha256: saltedHash(salt, asked.arguments),
    salt,
    definition: asked.definition,
    changes,
    created_at_ms: now,
    expires_at_ms: now + waitMs,
    grant_ms: grantMs,
    needed: rule?.needed ?? 1,
    rule: rule?.name ?? null,
    votes: [],
    decision: null,
    reason: null,
    decided_at_ms: null,
    claim: null,
    updated_at_ms: 0,
    mod_revision: 0,
  };
}

/** Why a request cannot be stored or shown to an approver; null: it can. */
export function sizeProblem({ arguments: args, definition, ...texts }: AskedCall): string | null {
  if (isDeeper(args, approvalLimits.argumentDepth)) {
    return `the arguments are nested more than ${approvalLimits.argumentDepth} levels deep and cannot be shown to an approver`;
  }
  const bytes = Buffer.byteLength(canonicalJson(args));
  if (bytes > approvalLimits.argumentBytes) {
    return `the arguments have ${bytes} bytes; an approval request may have at most ${approvalLimits.argumentBytes}`;
  }
  if (JSON.stringify(args, null, 2).length > approvalLimits.shownChars) {
    return `the arguments have more than ${approvalLimits.shownChars} characters as an approver would see them and cannot be shown`;
  }
  if (Buffer.byteLength(canonicalJson(definition)) > approvalLimits.definitionBytes)
    return `the tool definition has more than ${approvalLimits.definitionBytes} bytes`;
  const long = Object.entries(texts).find(
    ([, text]) => typeof text === 'string' && text.length > approvalLimits.textChars,
  );
  return long === undefined ? null : `${long[0]} has more than ${approvalLimits.textChars} characters`;
}

/** Level by level, because recursion would overflow the stack. */
function isDeeper(value: JsonValue, levels: number): boolean {
  let level: JsonValue[] = [value];
  for (let depth = 0; depth <= levels; depth++) {
    level = level.flatMap((each) => (typeof each === 'object' && each !== null ? Object.values(each) : []));
    if (level.length === 0) return false;
  }
  return true;
}

/** Thousands of closed requests are kept: of one, arguments and definition have so much room each. */
const KEPT_BYTES = 16 * 1024;
const KEPT_DESCRIPTION_CHARS = 1_000;

/** A closed request: it retains its arguments and definition only in part. */
export function closed(approval: Approval, status: Approval['status']): Approval {
  return {
    ...approval,
    status,
    arguments: keptArguments(approval.arguments),
    definition: keptDefinition(approval.definition),
  };
}

function keptArguments(args: JsonObject): JsonObject {
  const { value } = shortenArguments(args);
  return fits(value) ? value : (redactArguments(args) ?? {});
}

function keptDefinition(definition: JsonObject): JsonObject {
  if (fits(definition)) return definition;
  const { name = '', description = '' } = definition;
  return { name, description: startOf(String(description), KEPT_DESCRIPTION_CHARS) };
}

const fits = (value: JsonObject) => Buffer.byteLength(canonicalJson(value)) <= KEPT_BYTES;

export interface Vote {
  readonly decision: ApprovalDecision;
  readonly reason: string | null;
  /** Of the request that was looked at; undefined: whatever it is. */
  readonly ifModRevision?: number | undefined;
}

export interface Voting {
  /** How many have to allow it. */
  readonly needed: number;
  readonly by: string | null;
  /** The person behind that name. */
  readonly person: string | null;
  readonly now: number;
}

/** The request with one more vote. One denial decides it; otherwise it needs `needed` votes that allow it. */
export function counted(approval: Approval, { decision, reason }: Vote, { needed, by, person, now }: Voting): Approval {
  const other = person === null || person === by ? {} : { person };
  const votes = [...approval.votes, { by, ...other, decision, reason, at_ms: now }];
  const voted = { ...approval, needed, votes };
  if (decision === 'deny') {
    return closed({ ...voted, decision, reason, decided_at_ms: now }, 'denied');
  }
  if (votes.length < needed) return voted;
  // If the votes differ, the narrowest decision that all of them allow.
  const agreed = votes.every((vote) => vote.decision === 'allow_session') ? 'allow_session' : 'allow_once';
  const expires = now + approval.grant_ms;
  return { ...voted, status: 'granted', decision: agreed, reason, decided_at_ms: now, expires_at_ms: expires };
}

/** Fields of a request in the audit log. */
export function auditFields(approval: Approval) {
  const { approval_id, namespace, run, ordinal, task, session: session_id, server_id, kind, tool_name } = approval;
  const { arguments_sha256: args_sha256, definition_sha256: tool_sha256, needed, submitted_by } = approval;
  const deciders = decidersOf(approval);
  return {
    approval_id,
    approval_namespace: namespace,
    run,
    ordinal,
    task_name: task,
    session_id,
    server_id,
    kind,
    tool_name,
    args_sha256,
    tool_sha256,
    submitted_by,
    needed,
    decided_by: deciders.length === 0 ? NO_DECIDER : deciders.join(', '),
  };
}

type Asked = Pick<Approval, 'namespace' | 'server_id' | 'kind' | 'tool_name' | 'definition' | 'definition_sha256'>;

/** Differences from the definition of the same tool that was last allowed in this namespace. */
export function lastAllowed({ records }: RegistryListing<Approval>, asked: Asked): readonly DefinitionChange[] {
  let last: Approval | null = null;
  for (const approval of records) {
    const same = (['namespace', 'server_id', 'kind', 'tool_name'] as const).every(
      (field) => approval[field] === asked[field],
    );
    const allowed = approval.decision !== null && approval.decision !== 'deny';
    if (same && allowed && (approval.decided_at_ms ?? 0) >= (last?.decided_at_ms ?? 0)) last = approval;
  }
  if (last === null || last.definition_sha256 === asked.definition_sha256) return [];
  // One that was cut when its request was closed is known by its hash alone.
  if (hashDefinition(readDefinition(last.definition)) !== last.definition_sha256) {
    return [
      { path: 'definition', before: `sha256 ${last.definition_sha256}`, after: `sha256 ${asked.definition_sha256}` },
    ];
  }
  return definitionChanges(readDefinition(last.definition), readDefinition(asked.definition)).map(withoutHoles);
}

/** JSON has no undefined. */
function withoutHoles({ path, before, after }: DefinitionChange): DefinitionChange {
  return { path, ...(before === undefined ? {} : { before }), ...(after === undefined ? {} : { after }) };
}

/** A request in a list. Arguments are masked and cut; `arguments_shortened` says whether there is more to see. */
export function listedApproval(approval: Approval, leftMs: number) {
  const { salt: _salt, claim: _claim, epoch: _epoch, definition: _definition, changes, ...shown } = approval;
  const { value, shortened } = shortenArguments(approval.arguments);
  return {
    ...shown,
    arguments: value,
    arguments_shortened: !isClosed(approval) && shortened,
    changed: changes.length > 0,
    decided_by: decidersOf(approval),
    left_ms: isClosed(approval) ? 0 : leftMs,
  };
}

/** The whole request, for an approver. `whyNot`: why the caller may not decide it; null: the caller may. */
export function shownApproval(approval: Approval, leftMs: number, whyNot: string | null) {
  const { definition, changes } = approval;
  return { ...listedApproval(approval, leftMs), definition, changes, why_not: whyNot };
}
