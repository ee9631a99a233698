import { errorText } from '../../../../base/errors.ts';
import { cutText } from '../../../../base/text.ts';
import { knownSecrets } from '../../../../server/secrets/redactor.ts';
import { McpConnectionError, McpError, McpPolicyError } from '../errors.ts';
import { deepestCause, egressDenial } from '../library-errors.ts';
import type { McpLibrary } from '../transport/transport.ts';

/** No token could be obtained, and a retry would fail as well. The message holds no secret. */
export class PermanentTokenError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'PermanentTokenError';
  }
}

const MAX_REASON_CHARS = 500;
/** The library quotes the response of an endpoint; it may hold a secret. */
const QUOTED_BODY = /\.? Raw body:.*$/s;

/** Converts a failed token request to an error of the pool. The MCP session stays usable: nothing was sent in it. */
export function tokenFailure(error: unknown, serverId: string, library: McpLibrary): McpError {
  if (error instanceof McpError) return error;
  const denied = egressDenial(error);
  if (denied !== null) return new McpPolicyError(serverId, `server "${serverId}" needs a token: ${denied.message}`);
  const isPermanent = error instanceof PermanentTokenError || isRefusal(error, library);
  const text = isPermanent ? errorText(error).replace(QUOTED_BODY, '') : reasonOf(error);
  const code = error instanceof library.OAuthError ? `${error.code}: ` : '';
  const reason = cutText(knownSecrets.redact(`${code}${text}`), MAX_REASON_CHARS);
  return new McpConnectionError(
    serverId,
    isPermanent ? 'unauthorized' : 'connect_failed',
    `server "${serverId}": could not get a token: ${reason}${isPermanent ? '; check http.oauth of the server' : ''}`,
    'stands',
  );
}

function isRefusal(error: unknown, library: McpLibrary): boolean {
  if (error instanceof library.OAuthError) {
    const { ServerError, TemporarilyUnavailable, TooManyRequests } = library.OAuthErrorCode;
    return ![ServerError, TemporarilyUnavailable, TooManyRequests].some((code) => code === error.code);
  }
  return error instanceof library.OAuthClientFlowError;
}

function reasonOf(error: unknown): string {
  const deepest = deepestCause(error);
  const code = (deepest as { code?: unknown } | null)?.code;
  return typeof code === 'string' && !(deepest instanceof DOMException)
    ? `the authorization server is unreachable (${code})`
    : errorText(deepest).replace(QUOTED_BODY, '');
}
