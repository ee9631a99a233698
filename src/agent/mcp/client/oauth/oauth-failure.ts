import { cutText } from '../../../../base/cut-text.ts';
import { errorText } from '../../../../base/error-text.ts';
import { knownSecrets } from '../../../../server/secrets/redactor.ts';
import { McpConnectionError, McpError, McpPolicyError } from '../errors.ts';
import { deepestCause, egressDenial } from '../library-errors.ts';
import type { McpLibrary } from '../transport/transport.ts';

/** No token, and trying again will not bring one: what is wrong, in words that hold no secret. */
export class OAuthRefused extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'OAuthRefused';
  }
}

const MAX_REASON_CHARS = 500;
/** Of the library: it quotes whatever an endpoint answered. */
const QUOTED_BODY = /\.? Raw body:.*$/s;

/** Why there is no token, as an error of ours. The session is not in doubt: nothing was sent in it. */
export function oauthFailure(error: unknown, serverId: string, library: McpLibrary): McpError {
  if (error instanceof McpError) return error;
  const denied = egressDenial(error);
  if (denied !== null) return new McpPolicyError(serverId, `server "${serverId}" needs a token: ${denied.message}`);
  const lasting = error instanceof OAuthRefused || isRefusal(error, library);
  const said = lasting ? errorText(error).replace(QUOTED_BODY, '') : reasonOf(error);
  const code = error instanceof library.OAuthError ? `${error.code}: ` : '';
  const reason = cutText(knownSecrets.redact(`${code}${said}`), MAX_REASON_CHARS);
  return new McpConnectionError(
    serverId,
    lasting ? 'unauthorized' : 'connect_failed',
    `server "${serverId}": could not get a token: ${reason}${lasting ? '; check http.oauth of the server' : ''}`,
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
