/** Error of a call, as the model and the guest receive it. */
export interface ToolError {
  readonly code: ToolErrorCode;
  readonly message: string;
  /** Whether the same call may succeed later. The server may have executed the failed one all the same. */
  readonly retryable: boolean;
}

export type ToolErrorCode =
  | 'mcp_unavailable'
  | 'mcp_timeout'
  | 'mcp_invalid_arguments'
  | 'mcp_policy_denied'
  /** An operator stopped calls like this one. */
  | 'mcp_stopped'
  | 'mcp_output_too_large'
  | 'mcp_cancelled'
  | 'mcp_budget_exceeded'
  | 'mcp_approval_denied'
  /** The call was sent before the run was interrupted, and its outcome is unknown. */
  | 'mcp_outcome_unknown'
  /** The tool itself reported a failure. */
  | 'mcp_tool_error';

/** Base of all pool errors. The message is written for the model and contains no secret of the record. */
export abstract class McpError extends Error {
  abstract readonly code: ToolErrorCode;
  readonly serverId: string;
  readonly retryable: boolean;

  // No cause: a transport error may contain headers or arguments, and loggers print causes.
  constructor(serverId: string, message: string, details: { retryable: boolean }) {
    super(message);
    this.name = new.target.name;
    this.serverId = serverId;
    this.retryable = details.retryable;
  }
}

export type ConnectionFailure =
  /** A `${ENV:…}` or `auth_ref` of the record could not be resolved on this node. */
  | 'env_missing'
  /** The record references something that this node does not permit. */
  | 'env_refused'
  /** A url or header is no longer valid once its references are resolved. */
  | 'record_invalid'
  /** The command does not exist, or the system refused to start it. */
  | 'spawn_failed'
  /** The record requires a sandbox that this host lacks. */
  | 'sandbox_unavailable'
  /** This node runs no stdio servers. */
  | 'stdio_denied'
  /** The server rejected the credentials or denied access. */
  | 'unauthorized'
  | 'connect_failed'
  /** The connection broke. */
  | 'lost'
  /** The pool is closing, or the record was deleted. */
  | 'closed';

// A retry cannot succeed before the record or the node changes.
const permanent: ReadonlySet<ConnectionFailure> = new Set([
  'env_missing',
  'env_refused',
  'record_invalid',
  'spawn_failed',
  'sandbox_unavailable',
  'stdio_denied',
  'unauthorized',
  'closed',
]);

/**
 * State of the session after a failure: `doubtful`; `stands`, because the server answered and refused only this request; or
 * `unknown` to the server, which therefore did not execute the request.
 */
export type SessionAfterwards = 'doubtful' | 'stands' | 'unknown';

export class McpConnectionError extends McpError {
  readonly code = 'mcp_unavailable';
  readonly reason: ConnectionFailure;
  readonly session: SessionAfterwards;
  /** System error code of a process that could not start, such as `EMFILE`; null: none. */
  readonly systemError: string | null;

  constructor(
    serverId: string,
    reason: ConnectionFailure,
    message: string,
    session: SessionAfterwards = 'doubtful',
    systemError: string | null = null,
  ) {
    super(serverId, message, { retryable: !permanent.has(reason) });
    this.reason = reason;
    this.session = session;
    this.systemError = systemError;
  }
}

/** The server answered with an error, or with an invalid response. */
export class McpToolError extends McpError {
  readonly code: 'mcp_tool_error' | 'mcp_invalid_arguments';
  readonly toolName: string;
  readonly rpcCode: number | null;

  constructor(serverId: string, toolName: string, message: string, rpcCode: number | null = null) {
    super(serverId, message, { retryable: false });
    this.code = rpcCode === INVALID_PARAMS ? 'mcp_invalid_arguments' : 'mcp_tool_error';
    this.toolName = toolName;
    this.rpcCode = rpcCode;
  }
}

const INVALID_PARAMS = -32602;

export class McpTimeoutError extends McpError {
  readonly code = 'mcp_timeout';
  readonly timeoutMs: number;

  constructor(serverId: string, timeoutMs: number, what: string) {
    super(serverId, `${what} took longer than ${timeoutMs} ms`, { retryable: true });
    this.timeoutMs = timeoutMs;
  }
}

/** An unusable schema, or a structured result that violates the tool's output schema. */
export class McpSchemaError extends McpError {
  readonly code = 'mcp_tool_error';
  readonly toolName: string;
  readonly reason: string;

  constructor(serverId: string, toolName: string, reason: string) {
    super(serverId, `tool "${toolName}" of server "${serverId}": ${reason}`, { retryable: false });
    this.toolName = toolName;
    this.reason = reason;
  }
}

/** The call was not sent: no such tool, or arguments that violate its schema. */
export class McpArgumentsError extends McpError {
  readonly code = 'mcp_invalid_arguments';
  readonly toolName: string;

  constructor(serverId: string, toolName: string, message: string) {
    super(serverId, message, { retryable: false });
    this.toolName = toolName;
  }
}

export class McpCancelledError extends McpError {
  readonly code = 'mcp_cancelled';

  constructor(serverId: string, why: string) {
    super(serverId, why, { retryable: false });
  }
}

export class McpOutcomeUnknownError extends McpError {
  readonly code = 'mcp_outcome_unknown';

  constructor(serverId: string, tool: string) {
    const what = `a call of ${tool} may have been sent before the run was interrupted or restored, and its outcome is unknown`;
    super(serverId, `${what}; check whether it took effect before calling it again`, { retryable: false });
  }
}

export class McpBudgetError extends McpError {
  readonly code = 'mcp_budget_exceeded';

  constructor(serverId: string, message: string) {
    super(serverId, message, { retryable: true });
  }
}

export class McpOutputError extends McpError {
  readonly code = 'mcp_output_too_large';
  /** The beginning of the text; empty: none. */
  readonly head: string;

  constructor(serverId: string, message: string, head = '') {
    super(serverId, message, { retryable: false });
    this.head = head;
  }
}

/** Thrown by the caller's policy check; the pool passes it on. */
export class McpPolicyError extends McpError {
  readonly code: 'mcp_policy_denied' | 'mcp_stopped' = 'mcp_policy_denied';

  constructor(serverId: string, message: string, details: { retryable: boolean } = { retryable: false }) {
    super(serverId, message, details);
  }
}

/** Denied by a stop: the same call may succeed after the stop is lifted. */
export class McpStoppedError extends McpPolicyError {
  override readonly code = 'mcp_stopped';

  constructor(serverId: string, message: string) {
    super(serverId, message, { retryable: true });
  }
}

/** Thrown by the caller's approval check; the pool passes it on. */
export class McpApprovalError extends McpError {
  readonly code = 'mcp_approval_denied';

  constructor(serverId: string, message: string) {
    super(serverId, message, { retryable: false });
  }
}

/** Converts an error for the model. The text of a foreign error is withheld, because it was not checked for secrets. */
export function toToolError(error: unknown): ToolError {
  if (error instanceof McpError) return { code: error.code, message: error.message, retryable: error.retryable };
  return { code: 'mcp_unavailable', message: 'the call failed inside the host', retryable: false };
}
