import type { JsonObject } from '../../base/json.ts';
import type { CallKind } from '../../runtime/port/policy-layers.ts';
import { type ApprovalDecision, approvalDecisions, type DefinitionChange } from '../../server/records/approval.ts';
import { McpApprovalError } from '../mcp/client/errors.ts';
import type { ToolDefinition } from '../policy/definition-hash.ts';

export type { ApprovalDecision, DefinitionChange } from '../../server/records/approval.ts';

/** Why a call is asked about. */
export interface ApprovalCause {
  /**
   * `always`: the record asks for every call; `rule`: a rule says ask; `no_rule`: none matches; `unknown_outcome`: a
   * resumed run does not know whether the call was done.
   */
  readonly code: 'always' | 'rule' | 'no_rule' | 'unknown_outcome';
  /** The same as a sentence for a person. */
  readonly text: string;
}

/** One call that somebody has to decide about. */
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
  /** Told to the model when the call is denied, and kept in the audit trail. */
  readonly reason?: string;
}

/**
 * Who decides about calls that need an approval: a person at a terminal, or a program. It is asked about several calls
 * at the same time. If it throws, or answers with anything else, the call is denied.
 */
export type ApprovalDecider = (
  request: ApprovalRequest,
) => ApprovalDecision | ApprovalAnswer | Promise<ApprovalDecision | ApprovalAnswer>;

/** Makes an answer of whatever a decider gave; null if it is none. */
export function readAnswer(given: unknown): ApprovalAnswer | null {
  const answer = typeof given === 'string' ? { decision: given } : given;
  if (typeof answer !== 'object' || answer === null) return null;
  const { decision, reason } = answer as { decision?: unknown; reason?: unknown };
  const known = approvalDecisions.find((name) => name === decision);
  if (known === undefined) return null;
  return typeof reason === 'string' && reason !== '' ? { decision: known, reason } : { decision: known };
}

/** Why a call was not approved, in the words of the audit trail. */
export type ApprovalDenial =
  /** It needs an approval, and there is nobody to give it. */
  | 'approval_required'
  | 'approval_denied'
  | 'approval_timeout'
  /** A rule says no. */
  | 'denied_by_rule'
  /** More calls wait for an answer than are kept. */
  | 'approval_queue_full'
  /** What was approved is not what is to be done now: it has to be asked about again. */
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
