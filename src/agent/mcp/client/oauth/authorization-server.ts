import type {
  AuthorizationServerMetadata,
  FetchLike,
  OAuthProtectedResourceMetadata,
} from '@modelcontextprotocol/client';
import type { McpLibrary } from '../transport/transport.ts';
import type { Challenge } from './challenge.ts';
import { OAuthRefused } from './oauth-failure.ts';

/** Who gives out tokens for a server, and what is to be asked for. */
export interface AuthorizationServer {
  readonly url: string;
  readonly issuer: string;
  /** Null: it publishes none, and has its endpoints at the usual places. */
  readonly metadata: AuthorizationServerMetadata | null;
  /** What the token is to be good for; null: the server does not say what it is. */
  readonly resource: string | null;
  /** What the server says a token needs. */
  readonly scope: string | null;
}

export interface Discovery {
  readonly library: McpLibrary;
  /** {@link endpointFetch} */
  readonly fetch: FetchLike;
}

/**
 * Asks the server which authorization server it trusts, and that one for its endpoints.
 * @param issuer the only one that may be used; null: any
 */
export async function discoverAuthorizationServer(
  serverUrl: URL,
  challenge: Challenge | null,
  issuer: string | null,
  discovery: Discovery,
): Promise<AuthorizationServer> {
  const { library } = discovery;
  const resource = await protectedResource(serverUrl, challenge, discovery);
  if (resource !== null) requireOwnResource(serverUrl, resource.resource, library);
  const url = chosenServer(serverUrl, resource?.authorization_servers ?? [], issuer);
  const found = await metadataOf(url, discovery);
  const scope = challenge?.scope ?? (resource?.scopes_supported?.join(' ') || null);
  return { ...found, resource: resource?.resource ?? null, scope };
}

/** The endpoints of an authorization server that is known by its issuer. */
export async function metadataOf(
  url: string,
  { library, fetch }: Discovery,
): Promise<Pick<AuthorizationServer, 'url' | 'issuer' | 'metadata'>> {
  requireSecure(url, 'the authorization server');
  const metadata = (await library.discoverAuthorizationServerMetadata(url, { fetchFn: fetch })) ?? null;
  if (metadata !== null) {
    requireSecure(metadata.token_endpoint, 'the token endpoint');
    if (metadata.authorization_endpoint !== undefined) {
      requireSecure(metadata.authorization_endpoint, 'the authorization endpoint');
    }
    if (metadata.registration_endpoint !== undefined) {
      requireSecure(metadata.registration_endpoint, 'the registration endpoint');
    }
  }
  return { url, issuer: metadata?.issuer ?? url, metadata };
}

export function sameIssuer(a: string, b: string): boolean {
  return a.replace(/\/$/, '') === b.replace(/\/$/, '');
}

async function protectedResource(
  serverUrl: URL,
  challenge: Challenge | null,
  { library, fetch }: Discovery,
): Promise<OAuthProtectedResourceMetadata | null> {
  const at = challenge?.resourceMetadata ?? null;
  try {
    const options = at === null ? {} : { resourceMetadataUrl: at };
    return await library.discoverOAuthProtectedResourceMetadata(serverUrl, options, fetch);
  } catch (error) {
    // What cannot be reached, by our rules or at all, is not the same as a server that has none.
    if (error instanceof TypeError || error instanceof DOMException) throw error;
    return null;
  }
}

/** A server that calls itself another could use our token for that one there. */
function requireOwnResource(serverUrl: URL, resource: string, library: McpLibrary): void {
  const requestedResource = library.resourceUrlFromServerUrl(serverUrl);
  if (library.checkResourceAllowed({ requestedResource, configuredResource: resource })) return;
  throw new OAuthRefused(
    `the server's metadata names the resource ${JSON.stringify(resource)}, which is not the server's url (resource mismatch)`,
  );
}

function chosenServer(serverUrl: URL, named: readonly string[], issuer: string | null): string {
  const [first] = named;
  if (issuer === null) return first ?? new URL('/', serverUrl).href;
  if (first === undefined) return issuer;
  const match = named.find((each) => sameIssuer(each, issuer));
  if (match !== undefined) return match;
  throw new OAuthRefused(
    `the server names the authorization server ${JSON.stringify(first)}, but http.oauth.issuer is ${JSON.stringify(issuer)}`,
  );
}

function requireSecure(text: string, what: string): void {
  const url = URL.parse(text);
  if (url?.protocol === 'https:') return;
  const isLoopback = url !== null && /^(?:localhost|\[::1\]|127(?:\.\d+){3})$/.test(url.hostname);
  if (url?.protocol === 'http:' && isLoopback) return;
  throw new OAuthRefused(`${what} ${JSON.stringify(text)} is not an https url`);
}
