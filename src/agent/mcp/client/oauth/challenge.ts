/** What a server says with a 401 or 403: `WWW-Authenticate: Bearer error="…", scope="…", resource_metadata="…"`. */
export interface Challenge {
  /** Where the server describes what it protects; null: at the usual place. */
  readonly resourceMetadata: URL | null;
  /** The scope that a token would need. */
  readonly scope: string | null;
  /** The token is good, and not for this. */
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

/** An HTTP answer that another token may mend. */
export interface TokenRefusal {
  readonly kind: 'unauthorized' | 'insufficient_scope';
  readonly challenge: Challenge;
}

/** Null: a token has nothing to do with it. */
export function tokenRefusal(status: number, challenge: Challenge): TokenRefusal | null {
  if (status === 401) return { kind: 'unauthorized', challenge };
  return status === 403 && challenge.isAboutScope ? { kind: 'insufficient_scope', challenge } : null;
}
