import { createHash, createHmac } from 'node:crypto';
import { canonicalJson, type JsonObject, type JsonValue } from '../../base/json.ts';
import type { CallKind } from '../../runtime/port/policy-layers.ts';
import type { StoreStamps } from './record-kind.ts';

export const approvalDecisions = ['allow_once', 'allow_session', 'deny'] as const;
export type ApprovalDecision = (typeof approvalDecisions)[number];

/**
 * `granted`: allowed and not used yet. `used`: the call was sent, or was about to be. `expired`: allowed, and not used in
 * time. `withdrawn`: the call is not wanted any more. What nobody decided in time is `denied`.
 */
export const approvalStatuses = ['waiting', 'granted', 'denied', 'used', 'expired', 'withdrawn'] as const;
export type ApprovalStatus = (typeof approvalStatuses)[number];

/** One place where a tool's definition is another than the one that was allowed before. */
export interface DefinitionChange {
  /** `description`, `annotations.readOnlyHint`, `inputSchema.properties.path`. */
  readonly path: string;
  /** Undefined: it was not there before. */
  readonly before?: JsonValue | undefined;
  /** Undefined: it is not there any more. */
  readonly after?: JsonValue | undefined;
}

/** What a yes is bound to, besides the arguments. */
export interface BoundCall {
  readonly run: string;
  /** Names the call in its run. */
  readonly ordinal: string;
  readonly task: string | null;
  readonly session: string;
  readonly server_id: string;
  readonly kind: CallKind;
  readonly tool_name: string;
  readonly definition_sha256: string;
  readonly policy: string;
  /** `call`, or `repeat` and the attempt of the run that made it and has no answer. */
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

/** What one person, or one bot, said of it. */
export interface ApprovalVote {
  /** The name of who it was; null where everybody may do everything. */
  readonly by: string | null;
  /** The person behind that name, where it is another one: a person has one vote. */
  readonly person?: string | undefined;
  readonly decision: ApprovalDecision;
  readonly reason: string | null;
  readonly at_ms: number;
}

/** A call that somebody has to decide about, as a registry keeps it. */
export interface Approval extends StoreStamps, BoundCall {
  readonly approval_id: string;
  readonly namespace: string;
  /** The store that it was made in: a restored one knows nothing of what became of it since. */
  readonly epoch: string;
  readonly status: ApprovalStatus;
  readonly call_id: string;
  readonly node_id: string;
  /** Whose token asked. */
  readonly requested_by: string | null;
  readonly submitted_by: string | null;
  /** The person who submitted the run, as known when the request was made: the token may be revoked since. Absent: unknown. */
  readonly submitter?: string | undefined;
  readonly cause: { readonly code: string; readonly text: string };
  /** As they would be sent while it is open, masked and cut afterwards. */
  readonly arguments: JsonObject;
  /** Of the canonical JSON, HMAC-SHA256 by the salt: short arguments could be guessed from a plain hash. */
  readonly arguments_sha256: string;
  readonly salt: string;
  /** What the server says of the tool. */
  readonly definition: JsonObject;
  /** What is different from the definition that was allowed before. */
  readonly changes: readonly DefinitionChange[];
  readonly created_at_ms: number;
  /** When it is denied without an answer, and once it is granted, when that ends. */
  readonly expires_at_ms: number;
  /** How long a yes is good, counted from the decision. */
  readonly grant_ms: number;
  /** How many have to allow it, and the rule that says so; null: none does. */
  readonly needed: number;
  readonly rule: string | null;
  readonly votes: readonly ApprovalVote[];
  readonly decision: ApprovalDecision | null;
  /** Why it was denied, withdrawn or ended, for people and the model. */
  readonly reason: string | null;
  readonly decided_at_ms: number | null;
  /** Who uses it. */
  readonly claim: string | null;
}

export const approvalLimits = {
  /** Of the JSON: whoever decides has to be able to read it. */
  argumentBytes: 512 * 1024,
  /** Of the indented JSON, as approvers see it. */
  shownChars: 2_000_000,
  /** Levels of nesting. */
  argumentDepth: 100,
  definitionBytes: 128 * 1024,
  textChars: 1_024,
  reasonChars: 500,
  /** Requests of one call, one after the other. */
  rounds: 32,
  /** Of one run. */
  waitingPerRun: 256,
} as const;

const idShape = /^[0-9a-f]{16}-[1-9]\d?$/;
export const isApprovalId = (text: string): boolean => idShape.test(text);

/** The same for every request of one call; `round` tells them apart. */
export function approvalId(namespace: string, { run, ordinal }: Pick<BoundCall, 'run' | 'ordinal'>, round: number) {
  const hash = createHash('sha256')
    .update(JSON.stringify([namespace, run, ordinal]))
    .digest('hex');
  return `${hash.slice(0, 16)}-${round}`;
}

export function saltedHash(salt: string, args: JsonObject): string {
  return createHmac('sha256', salt).update(canonicalJson(args)).digest('hex');
}

/** The first field that is another; null: none is. The submitter counts only where both name one: older nodes do not. */
export function differingField(a: BoundCall, b: BoundCall): keyof BoundCall | null {
  const differing = boundCallFields.find((field) => a[field] !== b[field]);
  if (differing !== undefined) return differing;
  const [one = null, other = null] = [a.submitted_by, b.submitted_by];
  return one !== null && other !== null && one !== other ? 'submitted_by' : null;
}

/** Nothing more becomes of it. */
export const isClosed = ({ status }: Pick<Approval, 'status'>): boolean => status !== 'waiting' && status !== 'granted';

export function decidersOf({ votes }: Pick<Approval, 'votes'>): string[] {
  return [...new Set(votes.map(({ by }) => by ?? 'anybody'))];
}
