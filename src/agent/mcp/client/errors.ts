/** What the model and the guest are told about a call that did not succeed. */
export interface ToolError {
  readonly code: ToolErrorCode;
  readonly message: string;
  /** Whether the same call may succeed later. It says nothing about whether the server already acted on it. */
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
  /** It was sent before the run was interrupted, and nobody knows whether it was done. */
  | 'mcp_outcome_unknown'
  /** The call arrived and the tool itself reported a failure. */
  | 'mcp_tool_error';

/** Every error of the pool. Its message is meant for the model: it never holds a secret of the record. */
export abstract class McpError extends Error {
  abstract readonly code: ToolErrorCode;
  readonly serverId: string;
  readonly retryable: boolean;

  // No cause: what lies behind an error of a transport may hold headers or arguments, and loggers print causes.
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
  /** The record refers to something that records may not use on this node. */
  | 'env_refused'
  /** A url or header is no longer valid once its references are resolved. */
  | 'record_invalid'
  /** The command is not there, or the system refused to start it. */
  | 'spawn_failed'
  /** The record asks for a sandbox that this host cannot give. */
  | 'sandbox_unavailable'
  /** This node runs no servers of its own. */
  | 'stdio_denied'
  /** The server answers, and does not let us in. */
  | 'unauthorized'
  | 'connect_failed'
  /** There was a connection, and it broke. */
  | 'lost'
  /** The pool is closing, or the record is gone. */
  | 'closed';

// Trying again at once cannot help where the record or the node has to change first.
const lasting: ReadonlySet<ConnectionFailure> = new Set([
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
 * What a failure says about the session: it is in doubt, it stands (the server answered, and refused this request), or
 * the server does not know it any more, so that the request never ran.
 */
export type SessionAfterwards = 'doubtful' | 'stands' | 'unknown';

export class McpConnectionError extends McpError {
  readonly code = 'mcp_unavailable';
  readonly reason: ConnectionFailure;
  readonly session: SessionAfterwards;
  /** Code of the system error because of which a process could not start, such as `EMFILE`; null: none. */
  readonly systemError: string | null;

  constructor(
    serverId: string,
    reason: ConnectionFailure,
    message: string,
    session: SessionAfterwards = 'doubtful',
    systemError: string | null = null,
  ) {
    super(serverId, message, { retryable: !lasting.has(reason) });
    this.reason = reason;
    this.session = session;
    this.systemError = systemError;
  }
}

/** The server answered a request with an error, or with something that is not an answer. */
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

/** A schema that cannot be used, or a structured result that breaks the tool's own output schema. */
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

/** The call never left the host: no such tool, or arguments that break its schema. */
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
  /** The beginning of the text, where there is one. */
  readonly head: string;

  constructor(serverId: string, message: string, head = '') {
    super(serverId, message, { retryable: false });
    this.head = head;
  }
}

/** Thrown by whoever asks the policy; the pool only passes it on. */
export class McpPolicyError extends McpError {
  readonly code: 'mcp_policy_denied' | 'mcp_stopped' = 'mcp_policy_denied';

  constructor(serverId: string, message: string, details: { retryable: boolean } = { retryable: false }) {
    super(serverId, message, details);
  }
}

/** Refused by a stop: the same call may succeed once the stop is lifted. */
export class McpStoppedError extends McpPolicyError {
  override readonly code = 'mcp_stopped';

  constructor(serverId: string, message: string) {
    super(serverId, message, { retryable: true });
  }
}

/** Thrown by whoever asks for approval; the pool only passes it on. */
export class McpApprovalError extends McpError {
  readonly code = 'mcp_approval_denied';

  constructor(serverId: string, message: string) {
    super(serverId, message, { retryable: false });
  }
}

/**
 * The one place where our error classes become what a model reads. An error that is not ours says nothing of itself:
 * its text was never checked for secrets.
 */
export function toToolError(error: unknown): ToolError {
  if (error instanceof McpError) return { code: error.code, message: error.message, retryable: error.retryable };
  return { code: 'mcp_unavailable', message: 'the call failed inside the host', retryable: false };
}
