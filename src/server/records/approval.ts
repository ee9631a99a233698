import { createHash, createHmac } from 'node:crypto';
import { z } from 'zod';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import type { CallKind } from '../../runtime/port/policy-layers.ts';
import { orNull, parserOf, storeStamps } from './fields.ts';
import type { RecordKind, StoreStamps } from './record-kind.ts';

export const approvalDecisions = ['allow_once', 'allow_session', 'deny'] as const;
export type ApprovalDecision = (typeof approvalDecisions)[number];

/**
 * `granted`: allowed and not redeemed yet. `used`: the call was sent, or was about to be sent. `expired`: allowed, and not
 * redeemed in time. `withdrawn`: the call was cancelled. A request without a decision in time is `denied`.
 */
export const approvalStatuses = ['waiting', 'granted', 'denied', 'used', 'expired', 'withdrawn'] as const;
export type ApprovalStatus = (typeof approvalStatuses)[number];

/** One difference between a tool's definition and the one that was allowed before. */
export interface DefinitionChange {
  /** `description`, `annotations.readOnlyHint`, `inputSchema.properties.path`. */
  readonly path: string;
  /** Undefined: the field was added. */
  readonly before?: JsonValue | undefined;
  /** Undefined: the field was removed. */
  readonly after?: JsonValue | undefined;
}

/** The call that a grant is bound to, besides its arguments. */
export interface BoundCall {
  readonly run: string;
  /** Number of the call in its run. */
  readonly ordinal: string;
  readonly task: string | null;
  readonly session: string;
  readonly server_id: string;
  readonly kind: CallKind;
  readonly tool_name: string;
  readonly definition_sha256: string;
  readonly policy: string;
  /** `call`, or `repeat` and the attempt of the run whose call has no result. */
  readonly purpose: string;
  /** User who submitted the run; null or absent: unknown, as in requests of older nodes. */
  readonly submitted_by?: string | null;
}

export const boundCallFields = [
  'run',
  'ordinal',
  'task',
  'session',
  'server_id',
  'kind',
  'tool_name',
  'definition_sha256',
  'policy',
  'purpose',
] as const satisfies readonly (keyof BoundCall)[];

/** The vote of one user or bot. */
export interface ApprovalVote {
  /** Name of the voter; null in a registry without authentication. */
  readonly by: string | null;
  /** The user behind a token of another name: each user has one vote. */
  readonly person?: string | undefined;
  readonly decision: ApprovalDecision;
  readonly reason: string | null;
  readonly at_ms: number;
}

/** A call that needs a decision, as stored in the registry. */
export interface Approval extends StoreStamps, BoundCall {
  readonly approval_id: string;
  readonly namespace: string;
  /** Epoch of the store that created it: a restored store does not know later decisions. */
  readonly epoch: string;
  readonly status: ApprovalStatus;
  readonly call_id: string;
  readonly node_id: string;
  /** Name of the token that made the request. */
  readonly requested_by: string | null;
  readonly submitted_by: string | null;
  /** The user who submitted the run, resolved when the request was made: the token may be revoked later. Absent: unknown. */
  readonly submitter?: string | undefined;
  readonly cause: { readonly code: string; readonly text: string };
  /** Exactly as they would be sent while the request is open; masked and truncated afterwards. */
  readonly arguments: JsonObject;
  /** HMAC-SHA256 of the canonical JSON with the salt as key: short arguments could be guessed from a plain hash. */
  readonly arguments_sha256: string;
  readonly salt: string;
  /** The tool's definition from the server. */
  readonly definition: JsonObject;
  /** Differences from the definition that was allowed before. */
  readonly changes: readonly DefinitionChange[];
  readonly created_at_ms: number;
  /** While waiting: when the request is denied. Once granted: when the grant expires. */
  readonly expires_at_ms: number;
  /** Lifetime of a grant, counted from the decision. */
  readonly grant_ms: number;
  /** Number of votes that allow the call, and the rule that requires it; null: no rule. */
  readonly needed: number;
  readonly rule: string | null;
  readonly votes: readonly ApprovalVote[];
  readonly decision: ApprovalDecision | null;
  /** Why it was denied, withdrawn or expired; shown to users and to the model. */
  readonly reason: string | null;
  readonly decided_at_ms: number | null;
  /** The claim that redeemed the grant. */
  readonly claim: string | null;
}

export const approvalLimits = {
  /** Size of the JSON: an approver must be able to read it. */
  argumentBytes: 512 * 1024,
  /** Size of the indented JSON, as approvers see it. */
  shownChars: 2_000_000,
  /** Levels of nesting. */
  argumentDepth: 100,
  definitionBytes: 128 * 1024,
  textChars: 1_024,
  reasonChars: 500,
  /** Successive requests for one call. */
  rounds: 32,
  /** Waiting requests of one run. */
  waitingPerRun: 256,
} as const;

const idShape = /^[0-9a-f]{16}-[1-9]\d?$/;
export const isApprovalId = (text: string): boolean => idShape.test(text);

/** Id of a request. Requests for one call differ in `round` alone. */
export function approvalId(namespace: string, { run, ordinal }: Pick<BoundCall, 'run' | 'ordinal'>, round: number) {
  const hash = createHash('sha256')
    .update(JSON.stringify([namespace, run, ordinal]))
    .digest('hex');
  return `${hash.slice(0, 16)}-${round}`;
}

export function saltedHash(salt: string, args: JsonObject): string {
  return createHmac('sha256', salt).update(canonicalJson(args)).digest('hex');
}

/** The first field that differs, or null. The submitter is compared only if both calls name one: older nodes do not. */
export function differingField(a: BoundCall, b: BoundCall): keyof BoundCall | null {
  const differing = boundCallFields.find((field) => a[field] !== b[field]);
  if (differing !== undefined) return differing;
  const [one = null, other = null] = [a.submitted_by, b.submitted_by];
  return one !== null && other !== null && one !== other ? 'submitted_by' : null;
}

/** Whether the status is final. */
export const isClosed = ({ status }: Pick<Approval, 'status'>): boolean => status !== 'waiting' && status !== 'granted';

export function decidersOf({ votes }: Pick<Approval, 'votes'>): string[] {
  return [...new Set(votes.map(({ by }) => by ?? 'anybody'))];
}

const json = z.custom<JsonValue>((value) => value !== undefined);
/** Not parsed field by field: an argument may be called `__proto__`. */
const jsonObject = z.custom<JsonObject>(isJsonObject);
const ms = z.int().min(0);
const text = z.string();

/** Lifetime of a grant in requests of earlier versions. */
const EARLIER_GRANT_MS = 600_000;

const approvalSchema = z.object({
  approval_id: text.refine(isApprovalId, 'is not an approval id'),
  namespace: text,
  epoch: text,
  status: z.enum(approvalStatuses),
  run: text,
  ordinal: text,
  task: orNull(text),
  session: text,
  server_id: text,
  kind: z.enum(['tool', 'resource', 'prompt']),
  tool_name: text,
  definition_sha256: text,
  policy: text,
  purpose: text,
  call_id: text,
  node_id: text,
  requested_by: orNull(text),
  // Missing in requests of earlier versions, like grant_ms.
  submitted_by: orNull(text).default(null),
  submitter: text.optional(),
  cause: z.object({ code: text, text }),
  arguments: jsonObject,
  arguments_sha256: text,
  salt: text,
  definition: jsonObject,
  changes: z.array(z.object({ path: text, before: json.optional(), after: json.optional() })),
  created_at_ms: ms,
  expires_at_ms: ms,
  grant_ms: ms.default(EARLIER_GRANT_MS),
  needed: z.int().min(1),
  rule: orNull(text),
  votes: z.array(
    z.object({
      by: orNull(text),
      person: text.optional(),
      decision: z.enum(approvalDecisions),
      reason: orNull(text),
      at_ms: ms,
    }),
  ),
  decision: orNull(z.enum(approvalDecisions)),
  reason: orNull(text),
  decided_at_ms: orNull(ms),
  claim: orNull(text),
  ...storeStamps,
});

/** Only the registry writes approvals; they are never accepted from a client. */
export const approvalKind: RecordKind<Approval> = {
  name: 'approval',
  idField: 'approval_id',
  isId: isApprovalId,
  repair: () => 'its call requests a new approval',
  parse: parserOf(approvalSchema, undefined, Object.freeze),
};
