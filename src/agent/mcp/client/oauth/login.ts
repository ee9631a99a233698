import { randomBytes } from 'node:crypto';
import type { OAuthClientInformationMixed, OAuthTokens } from '@modelcontextprotocol/client';
import { endpointFetch } from '../../../../server/egress/endpoint-fetch.ts';
import type { McpTransport } from '../../../../server/records/record.ts';
import { knownSecrets } from '../../../../server/secrets/redactor.ts';
import type { HttpTarget, McpLibrary } from '../transport/transport.ts';
import { type AuthorizationServer, type Discovery, discoverAuthorizationServer } from './authorization-server.ts';
import { clientOfRecord, type OAuthClient } from './client-credentials.ts';
import { heldToken } from './held-token.ts';
import type { StoredLogin } from './login-store.ts';
import { type LoopbackRedirect, openLoopbackRedirect } from './loopback-redirect.ts';
import { OAuthRefused } from './oauth-failure.ts';
import { probeChallenge } from './probe.ts';
import type { ServerTokensDeps } from './server-tokens.ts';

export interface LoginOptions extends Omit<ServerTokensDeps, 'url'> {
  readonly target: HttpTarget;
  readonly transport: McpTransport;
  /** Shows the address to whoever is to log in. */
  show(address: URL): void;
  /** Of the redirect on this machine; 0: one that is free. */
  readonly port: number;
  readonly signal: AbortSignal;
}

/** How long somebody has in the browser. */
export const LOGIN_WAIT_MS = 5 * 60_000;
const STATE_BYTES = 32;

/**
 * Sends somebody to the authorization server of a server, and stores the tokens that come of it. Until they are there,
 * nothing is stored.
 * @throws OAuthRefused, or whatever kept an endpoint from answering
 */
export async function login(options: LoginOptions): Promise<StoredLogin> {
  const { serverId, oauth, library, logins, signal } = options;
  const { url } = options.target;
  const discovery: Discovery = { library, fetch: endpointFetch(options.fetch, signal) };
  const challenge = await probeChallenge(options);
  const server = await discoverAuthorizationServer(url, challenge, oauth.issuer, discovery);
  const before = logins.read(serverId, url);
  const scope = scopeOf(server, oauth.scopes, before?.wanted_scope ?? null, library);
  const redirect = await openLoopbackRedirect(options.port);
  try {
    const client = clientOfRecord(oauth, options.proof, library) ?? (await newClient(server, redirect, scope, options));
    const tokens = await authorize(server, client, redirect, scope, options, discovery);
    const held = heldToken(tokens, scope, options.wallClock());
    const stored: StoredLogin = {
      version: 1,
      server_url: url.href,
      issuer: server.issuer,
      authorization_server: server.url,
      resource: server.resource,
      client: oauth.client_id === null ? storedClient(client.information) : null,
      access_token: tokens.access_token,
      refresh_token: tokens.refresh_token ?? null,
      scope: held.scope,
      expires_at_ms: held.expiresAtMs,
      renew_at_ms: held.renewAtMs,
      wanted_scope: null,
    };
    signal.throwIfAborted();
    logins.write(serverId, stored);
    return stored;
  } finally {
    await redirect.close();
  }
}

/** What the record says is all; otherwise what the server wants, and what a login can be kept alive with. */
function scopeOf(
  { scope, metadata }: AuthorizationServer,
  listed: readonly string[],
  wanted: string | null,
  library: McpLibrary,
): string | null {
  if (listed.length > 0) return listed.join(' ');
  const asked = library.computeScopeUnion(wanted ?? undefined, scope ?? undefined);
  if (asked === undefined) return null;
  const offline = metadata?.scopes_supported?.includes('offline_access') === true ? 'offline_access' : undefined;
  return library.computeScopeUnion(asked, offline) ?? null;
}

/** The description of this client where that is taken as its id, else an id that the server gives out on the spot. */
async function newClient(
  server: AuthorizationServer,
  redirect: LoopbackRedirect,
  scope: string | null,
  { oauth, library, fetch, signal }: LoginOptions,
): Promise<OAuthClient> {
  const { metadata } = server;
  if (oauth.client_metadata_url !== null && metadata?.client_id_metadata_document_supported === true) {
    return { information: { client_id: oauth.client_metadata_url }, addClientAuthentication: undefined };
  }
  if (metadata !== null && metadata.registration_endpoint === undefined) {
    throw new OAuthRefused(
      `${server.issuer} does not support dynamic client registration; register a client there and set http.oauth.client_id`,
    );
  }
  const supported = metadata?.token_endpoint_auth_methods_supported ?? [];
  const method = ['none', 'client_secret_basic', 'client_secret_post'].find((each) => supported.includes(each));
  const information = await library.registerClient(server.url, {
    ...(metadata === null ? {} : { metadata }),
    ...(scope === null || !isKnownScope(scope, metadata) ? {} : { scope }),
    clientMetadata: {
      client_name: 'Spear',
      redirect_uris: [redirect.url],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      application_type: 'native',
      ...(method === undefined ? {} : { token_endpoint_auth_method: method }),
    },
    fetchFn: endpointFetch(fetch, signal),
  });
  return { information, addClientAuthentication: undefined };
}

/** A server that lists its scopes may refuse to register a client for one of somebody else's, like those of a resource. */
function isKnownScope(scope: string, metadata: AuthorizationServer['metadata']): boolean {
  const supported = metadata?.scopes_supported;
  return supported === undefined || scope.split(' ').every((each) => supported.includes(each));
}

async function authorize(
  server: AuthorizationServer,
  client: OAuthClient,
  redirect: LoopbackRedirect,
  scope: string | null,
  { library, show, signal }: LoginOptions,
  { fetch }: Discovery,
): Promise<OAuthTokens> {
  const metadata = server.metadata === null ? {} : { metadata: server.metadata };
  const resource = server.resource === null ? {} : { resource: server.resource };
  const state = randomBytes(STATE_BYTES).toString('base64url');
  const { authorizationUrl, codeVerifier } = await library.startAuthorization(server.url, {
    ...metadata,
    ...resource,
    clientInformation: client.information,
    redirectUrl: redirect.url,
    ...(scope === null ? {} : { scope }),
    state,
  });
  knownSecrets.addOfRecord(codeVerifier);
  const answered = redirect.answer(state, AbortSignal.any([signal, AbortSignal.timeout(LOGIN_WAIT_MS)]));
  show(authorizationUrl);
  const answer = await answered;
  const iss = answer.get('iss') ?? undefined;
  library.validateAuthorizationResponseIssuer({
    iss,
    expectedIssuer: server.metadata?.issuer,
    issParameterSupported: server.metadata?.authorization_response_iss_parameter_supported === true,
  });
  const code = answer.get('code');
  if (code === null) {
    const why = [answer.get('error'), answer.get('error_description')].filter((each) => each !== null);
    throw new OAuthRefused(`the authorization server returned no code: ${why.join(': ') || 'no reason given'}`);
  }
  knownSecrets.addOfRecord(code);
  return library.exchangeAuthorization(server.url, {
    ...metadata,
    ...resource,
    clientInformation: client.information,
    authorizationCode: code,
    ...(iss === undefined ? {} : { iss }),
    codeVerifier,
    redirectUri: redirect.url,
    ...(client.addClientAuthentication === undefined
      ? {}
      : { addClientAuthentication: client.addClientAuthentication }),
    fetchFn: fetch,
  });
}

function storedClient(information: OAuthClientInformationMixed): NonNullable<StoredLogin['client']> {
  const { client_id, client_secret } = information;
  const method = 'token_endpoint_auth_method' in information ? information.token_endpoint_auth_method : undefined;
  return {
    client_id,
    ...(client_secret === undefined ? {} : { client_secret }),
    ...(typeof method === 'string' ? { token_endpoint_auth_method: method } : {}),
  };
}
