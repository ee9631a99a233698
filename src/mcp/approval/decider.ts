import type { JsonObject, JsonValue } from '../../base/json.ts';

export const approvalDecisions = ['allow_once', 'allow_session', 'deny'] as const;
export type ApprovalDecision = (typeof approvalDecisions)[number];

/** What an approval is bound to of a tool: all that its server says of it before it is called. */
export interface ToolDefinition {
  readonly name: string;
  /** Text of the server: not to be trusted. */
  readonly description: string;
  readonly inputSchema: JsonObject;
  /** Hints of the server about itself: not to be trusted. */
  readonly annotations: JsonObject | null;
}

/** One place where a tool's definition is another than the one that was allowed before. */
export interface DefinitionChange {
  /** `description`, `annotations.readOnlyHint`, `inputSchema.properties.path`. */
  readonly path: string;
  /** Undefined: it was not there before. */
  readonly before: JsonValue | undefined;
  /** Undefined: it is not there any more. */
  readonly after: JsonValue | undefined;
}

/** Why a call is asked about. */
export interface ApprovalCause {
  /** `always`: the record asks for every call; `rule`: a rule says ask; `no_rule`: none matches. */
  readonly code: 'always' | 'rule' | 'no_rule';
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
  readonly server: string;
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
