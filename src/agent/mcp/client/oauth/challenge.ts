/** Parameters of a 401 or 403 response: `WWW-Authenticate: Bearer error="…", scope="…", resource_metadata="…"`. */
export interface Challenge {
  /** URL of the protected-resource metadata (RFC 9728); null: the well-known path. */
  readonly resourceMetadata: URL | null;
  /** The scope that the request needs. */
  readonly scope: string | null;
  /** The server accepts the token but its scope is too small. */
  readonly isAboutScope: boolean;
}

const MAX_CHALLENGE_CHARS = 8 * 1024;

export function readChallenge(header: string | readonly string[] | null | undefined): Challenge {
  const text = (typeof header === 'string' ? header : (header ?? []).join(', ')).slice(0, MAX_CHALLENGE_CHARS);
  const resource = parameter(text, 'resource_metadata');
  return {
    resourceMetadata: resource === null ? null : URL.parse(resource),
    scope: parameter(text, 'scope'),
    isAboutScope: parameter(text, 'error')?.toLowerCase() === 'insufficient_scope',
  };
}

function parameter(text: string, name: string): string | null {
  const match = new RegExp(`(?:^|[\\s,])${name}=(?:"([^"]*)"|([^\\s,"]+))`, 'i').exec(text);
  return (match?.[1] ?? match?.[2])?.trim() || null;
}

/** An HTTP response after which a retry with another token may succeed. */
export interface TokenRefusal {
  readonly kind: 'unauthorized' | 'insufficient_scope';
  readonly challenge: Challenge;
}

/** Null: the response has nothing to do with the token. */
export function tokenRefusal(status: number, challenge: Challenge): TokenRefusal | null {
  if (status === 401) return { kind: 'unauthorized', challenge };
  return status === 403 && challenge.isAboutScope ? { kind: 'insufficient_scope', challenge } : null;
}
