import { isJsonObject, parseJson } from '../../../base/json.ts';
import { McpConnectionError, type McpError, McpToolError } from './errors.ts';
import { whatHelps } from './rpc-error-help.ts';

/** An HTTP status that is no success, with what the server says about it. */
export interface HttpRefusal {
  readonly status: number;
  /** The body, or its beginning; null where nobody read it. */
  readonly text: string | null;
  /** Whether it was sent in a session that the server itself had named. */
  readonly inSession: boolean;
  /** The scope that a token would need, by `WWW-Authenticate: … error="insufficient_scope"`; null: it is not about one. */
  readonly missingScope: string | null;
}

export interface RefusedRequest {
  readonly serverId: string;
  /** For the message: `tool "x"`, `tools/list`. */
  readonly what: string;
  readonly toolName: string;
  /** Makes what the server wrote fit for a message: without secrets, and not at any length. */
  readonly serverText: (text: string) => string;
}

const REDIRECT_STATUS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** Statuses that say nothing about the request itself: it may succeed later, over the same session. */
const PASSING_STATUS: ReadonlySet<number> = new Set([408, 425, 429]);
/** Where a server that does not know our session should answer 404, many answer 400 and say so. */
const ABOUT_A_SESSION = /session|not initialized/i;

const CHECK_CREDENTIALS = 'check http.headers, http.auth_ref and http.oauth of the server';

/** What a refusal over HTTP means for the request, and for the session it was sent in. */
export function fromRefusal(refusal: HttpRefusal, request: RefusedRequest): McpError {
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
    // Only a server that named the session and answers nobody's request did certainly not run this one.
    const session = refusal.inSession && !answersARequest(refusal.text) ? 'unknown' : 'doubtful';
    return new McpConnectionError(serverId, 'lost', `${answered}${because}`, session);
  }
  if (said !== null && status < 500 && !PASSING_STATUS.has(status)) {
    return new McpToolError(serverId, toolName, `${what}${because}`, said.code);
  }
  return new McpConnectionError(serverId, 'lost', `${answered}${because}`, 'stands');
}

function isAboutTheSession({ status, text }: HttpRefusal): boolean {
  return status === 404 || (status === 400 && ABOUT_A_SESSION.test(text ?? ''));
}

/** A refusal of the session has no id: whoever answers with one has read the request, and may have run it. */
function answersARequest(text: string | null): boolean {
  const body = text === null ? undefined : parseJson(text);
  return isJsonObject(body) && body.id !== undefined && body.id !== null;
}

function rpcError(text: string | null): { readonly code: number; readonly message: string } | null {
  const body = text === null ? undefined : parseJson(text);
  if (!isJsonObject(body) || !isJsonObject(body.error)) return null;
  const { code, message, data } = body.error;
  if (typeof code !== 'number' || typeof message !== 'string') return null;
  return { code, message: `${message}${whatHelps(code, data)}` };
}
