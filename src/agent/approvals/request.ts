import type { JsonObject } from '../../base/json.ts';
import type { CallKind } from '../../runtime/port/policy-layers.ts';
import { type ApprovalDecision, approvalDecisions, type DefinitionChange } from '../../server/records/approval.ts';
import { McpApprovalError } from '../mcp/client/errors.ts';
import type { ToolDefinition } from '../policy/definition-hash.ts';

export type { ApprovalDecision, DefinitionChange } from '../../server/records/approval.ts';

/** Why a call needs a decision. */
export interface ApprovalCause {
  /**
   * `always`: the record asks for every call; `rule`: a rule says ask; `no_rule`: none matches; `unknown_outcome`: a
   * resumed run does not know whether the call was done.
   */
  readonly code: 'always' | 'rule' | 'no_rule' | 'unknown_outcome';
  /** The same as a sentence for a person. */
  readonly text: string;
}

/** One call that needs a decision. */
export interface ApprovalRequest {
  /** Name of the task; null if it has none. */
  readonly task: string | null;
  readonly run: string;
  readonly session: string;
  readonly callId: string;
  /** Names the call in its run, the same in every attempt of it. */
  readonly ordinal: string;
  readonly server: string;
  readonly kind: CallKind;
  /** The tool or the prompt as the server calls it, or the uri of a resource. */
  readonly tool: string;
  /** A copy: changing it changes nothing. Written by a model or a guest, so not to be trusted either. */
  readonly arguments: JsonObject;
  readonly cause: ApprovalCause;
  readonly definition: ToolDefinition;
  /** What is different from the definition that was allowed before; empty if none was, or nothing is. */
  readonly changes: readonly DefinitionChange[];
  /** When the call is denied without an answer, in milliseconds since 1970. */
  readonly deadlineMs: number;
  /** Aborts when no answer is wanted any more; its reason says why in words. */
  readonly signal: AbortSignal;
}

export interface ApprovalAnswer {
  readonly decision: ApprovalDecision;
  /** Returned to the model when the call is denied, and written to the audit log. */
  readonly reason?: string;
}

/**
 * Decides calls that need an approval: a user at a terminal, or a program. Called for several calls at the same time. If
 * it throws, or returns anything else, the call is denied.
 */
export type ApprovalDecider = (
  request: ApprovalRequest,
) => ApprovalDecision | ApprovalAnswer | Promise<ApprovalDecision | ApprovalAnswer>;

/** Reads the return value of a decider; null if it is no answer. */
export function readAnswer(given: unknown): ApprovalAnswer | null {
  const answer = typeof given === 'string' ? { decision: given } : given;
  if (typeof answer !== 'object' || answer === null) return null;
  const { decision, reason } = answer as { decision?: unknown; reason?: unknown };
  const known = approvalDecisions.find((name) => name === decision);
  if (known === undefined) return null;
  return typeof reason === 'string' && reason !== '' ? { decision: known, reason } : { decision: known };
}

/** Why a call was not approved; the value in the audit log. */
export type ApprovalDenial =
  /** The call needs an approval, and no decider is configured. */
  | 'approval_required'
  | 'approval_denied'
  | 'approval_timeout'
  /** A rule denies the call. */
  | 'denied_by_rule'
  /** Too many pending requests. */
  | 'approval_queue_full'
  /** The call differs from the approved one, or the grant expired: it needs a new approval. */
  | 'approval_outdated';

/** The call is not made. The message is for the model. */
export class ApprovalRefused extends McpApprovalError {
  readonly denial: ApprovalDenial;

  constructor(serverId: string, denial: ApprovalDenial, message: string) {
    super(serverId, message);
    this.denial = denial;
  }
}

export function isOutdated(error: unknown): boolean {
  return error instanceof ApprovalRefused && error.denial === 'approval_outdated';
}
