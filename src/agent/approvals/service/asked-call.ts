import { randomBytes } from 'node:crypto';
import { canonicalJson, type JsonObject, type JsonValue } from '../../../base/json.ts';
import type { ApproverRule } from '../../../config/registry/registry-config.ts';
import {
  type Approval,
  approvalId,
  approvalLimits,
  type BoundCall,
  boundCallFields,
  type DefinitionChange,
  saltedHash,
} from '../../../server/records/approval.ts';

/** What a node asks. */
export interface AskedCall extends BoundCall {
  readonly namespace: string;
  readonly callId: string;
  readonly nodeId: string;
  readonly arguments: JsonObject;
  readonly definition: JsonObject;
  readonly cause: Approval['cause'];
  /** The run is kept while it waits: it comes for its answer whenever it can. */
  readonly isKept: boolean;
}

/** What is known here of a call that is asked about for the first time, or once more. */
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
  /** How long a yes may wait for the call. */
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

/** Whether it can be kept, and be read by whoever decides. Null: it can. */
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
