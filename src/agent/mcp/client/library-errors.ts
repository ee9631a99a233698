import { cutText } from '../../../base/cut-text.ts';
import { errorText } from '../../../base/error-text.ts';
import { EgressDenied } from '../../../server/egress/egress.ts';
import type { Redact } from '../../../server/secrets/redactor.ts';
import { McpConnectionError, McpError, McpPolicyError, McpToolError } from './errors.ts';
import { fromRefusal, type HttpRefusal } from './http-refusal.ts';
import { whatHelps } from './rpc-error-help.ts';
import type { McpLibrary } from './transport/http-target.ts';
import { RpcError, StatusError } from './transport/transport-failure.ts';

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

/** Turns what the library and Node throw into our own classes. What was cancelled is the caller's to tell. */
export function fromLibrary(error: unknown, context: FailureContext): McpError {
  const { serverId, what, toolName, library } = context;
  // One of ours that was thrown under the library may come wrapped in one of its own.
  const ours = inCauses(error, (cause) => cause instanceof McpError);
  if (ours !== null) return ours;
  const denied = egressDenial(error);
  if (denied !== null) return new McpPolicyError(serverId, `${what}: ${serverText(denied.message, context)}`);
  if (error instanceof RpcError || error instanceof library.ProtocolError) {
    if (error.data instanceof McpError) return error.data;
    const text = serverText(`${error.message}${whatHelps(error.code, error.data)}`, context);
    return new McpToolError(serverId, toolName, `${what}: ${text}`, error.code);
  }
  if (error instanceof StatusError) return refused(error, context);
  if (error instanceof library.SdkHttpError) {
    const { text } = error.data as { readonly text?: unknown };
    return refused({ status: error.status, text: typeof text === 'string' ? text : null }, context);
  }
  if (error instanceof library.InsufficientScopeError) {
    return refused({ status: 403, missingScope: error.requiredScope ?? 'not named' }, context);
  }
  if (error instanceof library.UnauthorizedError) return refused({ status: 401 }, context);
  if (error instanceof library.SdkError && error.code === library.SdkErrorCode.InvalidResult) {
    const message = `${what}: the server sent an invalid response: ${serverText(error.message, context)}`;
    return new McpToolError(serverId, toolName, message);
  }
  if (error instanceof library.SseError && typeof error.code === 'number')
    return refused({ status: error.code }, context);
  return new McpConnectionError(
    serverId,
    'lost',
    `${what}: the connection to server "${serverId}" failed: ${cause(error, context)}`,
  );
}

function refused(refusal: Partial<HttpRefusal> & Pick<HttpRefusal, 'status'>, context: FailureContext): McpError {
  const about = { ...context, serverText: (text: string) => serverText(text, context) };
  const { status, text = null, inSession = false, missingScope = null } = refusal;
  return fromRefusal({ status, text, inSession, missingScope }, about);
}

const MAX_CAUSES = 5;

export function egressDenial(error: unknown): EgressDenied | null {
  return inCauses(error, (cause) => cause instanceof EgressDenied);
}

function inCauses<Found>(error: unknown, isWanted: (cause: unknown) => cause is Found): Found | null {
  let cause: unknown = error;
  for (let depth = 0; depth <= MAX_CAUSES && cause instanceof Error; depth++) {
    if (isWanted(cause)) return cause;
    cause = cause.cause;
  }
  return null;
}

export function deepestCause(error: unknown): unknown {
  let deepest: unknown = error;
  for (let depth = 0; depth < MAX_CAUSES && deepest instanceof Error && deepest.cause !== undefined; depth++)
    deepest = deepest.cause;
  return deepest;
}

// `fetch failed` says nothing; the system's code is one or two causes further down.
function cause(error: unknown, context: FailureContext): string {
  const deepest = deepestCause(error);
  const code = (deepest as { code?: unknown } | null)?.code;
  if (typeof code === 'string') return code;
  return serverText(errorText(deepest), context);
}

function serverText(text: string, { redact }: FailureContext): string {
  return cutText(redact(text), MAX_SERVER_TEXT_CHARS);
}
