import { cutText } from '../base/cut-text.ts';
import { errorText } from '../base/error-text.ts';
import type { Redact } from '../secrets/redactor.ts';
import { EgressDenied } from './egress.ts';
import { McpConnectionError, McpError, McpPolicyError, McpToolError } from './errors.ts';
import type { McpLibrary } from './transport/http-target.ts';

export interface FailureContext {
  readonly serverId: string;
  /** What failed, for the message: `tool "x"`, `tools/list`. */
  readonly what: string;
  readonly toolName: string;
  readonly redact: Redact;
  readonly library: McpLibrary;
}

/** What a server says about itself is passed on, but not at any length. */
const MAX_SERVER_TEXT_CHARS = 2_000;
const REDIRECT_STATUS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const AUTHORIZATION_STATUS: ReadonlySet<number> = new Set([401, 403]);

/** Turns what the library and Node throw into our own classes. What was cancelled is the caller's to tell. */
export function fromLibrary(error: unknown, context: FailureContext): McpError {
  const { serverId, what, toolName, library } = context;
  if (error instanceof McpError) return error;
  const denied = egressDenial(error);
  if (denied !== null) return new McpPolicyError(serverId, `${what}: ${serverText(denied.message, context)}`);
  if (error instanceof library.ProtocolError) {
    if (error.data instanceof McpError) return error.data;
    return new McpToolError(serverId, toolName, `${what}: ${serverText(error.message, context)}`, error.code);
  }
  if (error instanceof library.SdkHttpError) return fromStatus(error.status, context);
  if (error instanceof library.UnauthorizedError) return fromStatus(401, context);
  if (error instanceof library.SdkError && error.code === library.SdkErrorCode.InvalidResult) {
    const message = `${what}: the server's answer is not valid: ${serverText(error.message, context)}`;
    return new McpToolError(serverId, toolName, message);
  }
  if (error instanceof library.SseError && typeof error.code === 'number') return fromStatus(error.code, context);
  return new McpConnectionError(
    serverId,
    'lost',
    `${what}: the connection to server "${serverId}" failed: ${cause(error, context)}`,
  );
}

function fromStatus(status: number, { serverId, what }: FailureContext): McpConnectionError {
  if (AUTHORIZATION_STATUS.has(status)) {
    const message = `${what}: server "${serverId}" refuses us (HTTP ${status}); check http.headers and http.auth_ref of its record`;
    return new McpConnectionError(serverId, 'unauthorized', message);
  }
  const hint = REDIRECT_STATUS.has(status)
    ? ', a redirect that is not followed (only those within its origin are)'
    : '';
  return new McpConnectionError(serverId, 'lost', `${what}: server "${serverId}" answered HTTP ${status}${hint}`);
}

const MAX_CAUSES = 5;

function egressDenial(error: unknown): EgressDenied | null {
  let cause: unknown = error;
  for (let depth = 0; depth <= MAX_CAUSES && cause instanceof Error; depth++) {
    if (cause instanceof EgressDenied) return cause;
    cause = cause.cause;
  }
  return null;
}

// `fetch failed` says nothing; the system's code is one or two causes further down.
function cause(error: unknown, context: FailureContext): string {
  let deepest: unknown = error;
  for (let depth = 0; depth < MAX_CAUSES && deepest instanceof Error && deepest.cause !== undefined; depth++)
    deepest = deepest.cause;
  const code = (deepest as { code?: unknown } | null)?.code;
  if (typeof code === 'string') return code;
  return serverText(errorText(deepest), context);
}

function serverText(text: string, { redact }: FailureContext): string {
  return cutText(redact(text), MAX_SERVER_TEXT_CHARS);
}
