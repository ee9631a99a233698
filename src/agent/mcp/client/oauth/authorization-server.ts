/**
 * OAuth requests to the authorization server of an MCP server: discovery (RFC 9728, RFC 8414) and the client
 * credentials grant. The MCP library makes the requests, always through {@link Discovery.fetch}. This file adds what the
 * library leaves out: only https (or http on loopback) endpoints are used, the metadata must name the server's own
 * resource, and `http.oauth.issuer` of the record pins the issuer. Nothing here is cached; see server-tokens.ts.
 */
import { createPrivateKey, type KeyObject } from 'node:crypto';
import type {
  AuthorizationServerMetadata,
  FetchLike,
  OAuthClientInformationMixed,
  OAuthClientProvider,
  OAuthProtectedResourceMetadata,
  OAuthTokens,
} from '@modelcontextprotocol/client';
import { isSecureUrl } from '../../../../config/address.ts';
import type { McpOAuth } from '../../../../server/records/server.ts';
import type { ClientProof } from '../resolved-record.ts';
import type { McpLibrary } from '../transport/transport.ts';
import type { Challenge } from './challenge.ts';
import { PermanentTokenError } from './token-errors.ts';

/** The authorization server of an MCP server, and the parameters of a token request. */
export interface AuthorizationServer {
  readonly url: string;
  readonly issuer: string;
  /** Null: the server publishes none; its endpoints have the default paths. */
  readonly metadata: AuthorizationServerMetadata | null;
  /** Resource indicator (RFC 8707) of the token; null: the MCP server publishes no resource metadata. */
  readonly resource: string | null;
  /** The scope that the MCP server asks for. */
  readonly scope: string | null;
}

export interface Discovery {
  readonly library: McpLibrary;
  /** {@link endpointFetch} */
  readonly fetch: FetchLike;
}

/**
 * Reads the resource metadata of an MCP server, then the metadata of its authorization server.
 * @param issuer the only issuer that may be used; null: any
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

/** The metadata of an authorization server with a known URL. */
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
    // A server that is unreachable, or denied by the egress rules, is not a server without metadata.
    if (error instanceof TypeError || error instanceof DOMException) throw error;
    return null;
  }
}

/** A server whose metadata names another server's resource could use our token there. */
function requireOwnResource(serverUrl: URL, resource: string, library: McpLibrary): void {
  const requestedResource = library.resourceUrlFromServerUrl(serverUrl);
  if (library.checkResourceAllowed({ requestedResource, configuredResource: resource })) return;
  throw new PermanentTokenError(
    `the server's metadata names the resource ${JSON.stringify(resource)}, which is not the server's url (resource mismatch)`,
  );
}

function chosenServer(serverUrl: URL, named: readonly string[], issuer: string | null): string {
  const [first] = named;
  if (issuer === null) return first ?? new URL('/', serverUrl).href;
  if (first === undefined) return issuer;
  const match = named.find((each) => sameIssuer(each, issuer));
  if (match !== undefined) return match;
  throw new PermanentTokenError(
    `the server names the authorization server ${JSON.stringify(first)}, but http.oauth.issuer is ${JSON.stringify(issuer)}`,
  );
}

function requireSecure(text: string, what: string): void {
  const url = URL.parse(text);
  if (url !== null && isSecureUrl(url)) return;
  throw new PermanentTokenError(`${what} ${JSON.stringify(text)} is not an https url`);
}

/** An OAuth client: its id, and how it authenticates to the token endpoint. */
export interface OAuthClient {
  readonly information: OAuthClientInformationMixed;
  readonly addClientAuthentication: OAuthClientProvider['addClientAuthentication'];
}

/** The client that a record names; null: it names none. */
export function clientOfRecord(oauth: McpOAuth, proof: ClientProof, library: McpLibrary): OAuthClient | null {
  const { client_id, token_endpoint_auth_method: method } = oauth;
  if (client_id === null) return null;
  const information = {
    client_id,
    ...(proof.secret === null ? {} : { client_secret: proof.secret }),
    ...(method === null ? {} : { token_endpoint_auth_method: method }),
  };
  if (proof.privateKey === null) return { information, addClientAuthentication: undefined };
  const key = readKey(proof.privateKey);
  const addClientAuthentication = library.createPrivateKeyJwtAuth({
    issuer: client_id,
    subject: client_id,
    privateKey: { ...key.export({ format: 'jwk' }) },
    alg: algorithmOf(key),
  });
  return { information, addClientAuthentication };
}

/** Options that all token requests of the library have in common. */
export function tokenRequestOptions(server: Pick<AuthorizationServer, 'metadata' | 'resource'>, client: OAuthClient) {
  const { addClientAuthentication } = client;
  return {
    ...(server.metadata === null ? {} : { metadata: server.metadata }),
    ...(server.resource === null ? {} : { resource: server.resource }),
    ...(addClientAuthentication === undefined ? {} : { addClientAuthentication }),
  };
}

/** Requests a token for the client itself; no user consents. */
export async function clientCredentialsToken(
  client: OAuthClient,
  server: AuthorizationServer,
  scope: string | null,
  { library, fetch }: Discovery,
): Promise<OAuthTokens> {
  const never = () => {
    throw new Error('the client credentials grant has no user interaction');
  };
  const { addClientAuthentication, ...options } = tokenRequestOptions(server, client);
  const provider: OAuthClientProvider = {
    redirectUrl: undefined,
    clientMetadata: { redirect_uris: [], grant_types: ['client_credentials'] },
    clientInformation: () => client.information,
    tokens: () => undefined,
    saveTokens: never,
    redirectToAuthorization: never,
    saveCodeVerifier: never,
    codeVerifier: never,
    prepareTokenRequest: () =>
      new URLSearchParams({ grant_type: 'client_credentials', ...(scope === null ? {} : { scope }) }),
    ...(addClientAuthentication === undefined ? {} : { addClientAuthentication }),
  };
  return library.fetchToken(provider, server.url, {
    ...options,
    ...(scope === null ? {} : { scope }),
    fetchFn: fetch,
  });
}

function readKey(pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    throw new PermanentTokenError('http.oauth.private_key does not refer to a private key in PEM format');
  }
}

const curveAlgorithms: Readonly<Record<string, string>> = {
  prime256v1: 'ES256',
  secp384r1: 'ES384',
  secp521r1: 'ES512',
};

function algorithmOf(key: KeyObject): string {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === 'rsa') return 'RS256';
  if (type === 'ed25519') return 'EdDSA';
  const algorithm = curveAlgorithms[details?.namedCurve ?? ''];
  if (algorithm !== undefined) return algorithm;
  throw new PermanentTokenError(
    'http.oauth.private_key refers to a key that cannot sign assertions; use RSA, EC or Ed25519',
  );
}
