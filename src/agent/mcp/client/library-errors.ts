import { errorText } from '../../../base/errors.ts';
import { isJsonObject, parseJson } from '../../../base/json.ts';
import { cutText } from '../../../base/text.ts';
import { EgressDenied } from '../../../server/egress/egress.ts';
import type { Redact } from '../../../server/secrets/redactor.ts';
import { McpConnectionError, McpError, McpPolicyError, McpToolError } from './errors.ts';
import { type HttpRefusal, type McpLibrary, RpcError, StatusError } from './transport/transport.ts';

export interface FailureContext {
  readonly serverId: string;
  /** What failed, for the message: `tool "x"`, `tools/list`. */
  readonly what: string;
  readonly toolName: string;
  readonly redact: Redact;
  readonly library: McpLibrary;
}

/** Limit for text of a server in an error message. */
const MAX_SERVER_TEXT_CHARS = 2_000;

/** Converts errors of the library and of Node to our classes. The caller handles cancellation. */
export function fromLibrary(error: unknown, context: FailureContext): McpError {
  const { serverId, what, toolName, library } = context;
  // An error of ours that was thrown below the library may be wrapped in one of the library's.
  const ours = inCauses(error, (cause) => cause instanceof McpError);
  if (ours !== null) return ours;
  const denied = egressDenial(error);
  if (denied !== null) return new McpPolicyError(serverId, `${what}: ${serverText(denied.message, context)}`);
  if (error instanceof RpcError || error instanceof library.ProtocolError) {
    if (error.data instanceof McpError) return error.data;
    const text = serverText(`${error.message}${rpcErrorHint(error.code, error.data)}`, context);
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

// `fetch failed` has no details; the system's code is one or two causes further down.
function cause(error: unknown, context: FailureContext): string {
  const deepest = deepestCause(error);
  const code = (deepest as { code?: unknown } | null)?.code;
  if (typeof code === 'string') return code;
  return serverText(errorText(deepest), context);
}

function serverText(text: string, { redact }: FailureContext): string {
  return cutText(redact(text), MAX_SERVER_TEXT_CHARS);
}

const MISSING_CLIENT_CAPABILITY = -32021;
const URL_ELICITATION_REQUIRED = -32042;
const MAX_ADDRESSES = 3;

/** Advice for errors whose message does not say what to do. */
function rpcErrorHint(code: number, data: unknown): string {
  if (code === MISSING_CLIENT_CAPABILITY) return ' (client_features of the server lists what it may request)';
  if (code !== URL_ELICITATION_REQUIRED || !isJsonObject(data) || !Array.isArray(data.elicitations)) return '';
  const addresses = data.elicitations.flatMap((asked) => {
    const url = isJsonObject(asked) && typeof asked.url === 'string' ? URL.parse(asked.url) : null;
    return url !== null && /^https?:$/.test(url.protocol) ? [url.href] : [];
  });
  return addresses.length === 0 ? '' : ` (open first: ${addresses.slice(0, MAX_ADDRESSES).join(' ')})`;
}

interface RefusedRequest {
  readonly serverId: string;
  /** For the message: `tool "x"`, `tools/list`. */
  readonly what: string;
  readonly toolName: string;
  /** Redacts secrets in a server's text and cuts it. */
  readonly serverText: (text: string) => string;
}

const REDIRECT_STATUS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** Statuses after which the same request may succeed later, in the same session. */
const TRANSIENT_STATUS: ReadonlySet<number> = new Set([408, 425, 429]);
/** A server that does not know the session should answer 404; many answer 400 with such a text. */
const ABOUT_A_SESSION = /session|not initialized/i;

const CHECK_CREDENTIALS = 'check http.headers, http.auth_ref and http.oauth of the server';

/** Effect of an HTTP error status on the request and on its session. */
function fromRefusal(refusal: HttpRefusal, request: RefusedRequest): McpError {
  const { status, missingScope } = refusal;
  const { serverId, what, toolName, serverText } = request;
  const said = rpcError(refusal.text);
  const because = said === null ? '' : `: ${serverText(said.message)}`;
  const answered = `${what}: server "${serverId}" answered HTTP ${status}`;
  if (status === 401) {
    const message = `${what}: server "${serverId}" rejected the credentials (HTTP 401)${because}; ${CHECK_CREDENTIALS}`;
    return new McpConnectionError(serverId, 'unauthorized', message);
  }
  if (status === 403) {
    const scope = missingScope === null ? '' : `, insufficient_scope: required scope ${serverText(missingScope)}`;
    const message = `${what}: server "${serverId}" denied access (HTTP 403${scope})${because}; ${CHECK_CREDENTIALS}`;
    return new McpConnectionError(serverId, 'unauthorized', message, 'stands');
  }
  if (REDIRECT_STATUS.has(status)) {
    const message = `${answered}, a redirect that is not followed; only redirects within its origin are`;
    return new McpConnectionError(serverId, 'lost', message);
  }
  if (isAboutTheSession(refusal)) {
    // Only a server that issued the session id and names no request certainly did not execute this one.
    const session = refusal.inSession && !answersARequest(refusal.text) ? 'unknown' : 'doubtful';
    return new McpConnectionError(serverId, 'lost', `${answered}${because}`, session);
  }
  if (said !== null && status < 500 && !TRANSIENT_STATUS.has(status)) {
    return new McpToolError(serverId, toolName, `${what}${because}`, said.code);
  }
  return new McpConnectionError(serverId, 'lost', `${answered}${because}`, 'stands');
}

function isAboutTheSession({ status, text }: HttpRefusal): boolean {
  return status === 404 || (status === 400 && ABOUT_A_SESSION.test(text ?? ''));
}

/** A rejected session has no request id: a server that names one has read the request and may have executed it. */
function answersARequest(text: string | null): boolean {
  const body = text === null ? undefined : parseJson(text);
  return isJsonObject(body) && body.id !== undefined && body.id !== null;
}

function rpcError(text: string | null): { readonly code: number; readonly message: string } | null {
  const body = text === null ? undefined : parseJson(text);
  if (!isJsonObject(body) || !isJsonObject(body.error)) return null;
  const { code, message, data } = body.error;
  if (typeof code !== 'number' || typeof message !== 'string') return null;
  return { code, message: `${message}${rpcErrorHint(code, data)}` };
}
