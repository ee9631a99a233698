/**
 * The login of a user at the authorization server of an MCP server: authorization code flow with PKCE, over a redirect
 * to this machine (RFC 8252). `spear servers login` runs it.
 *
 * Steps: probe the server for its challenge, discover the authorization server, register a client if the record names
 * none, open the browser, check `state` and `iss` of the redirect (RFC 9207), exchange the code, store the tokens.
 * Nothing is stored before the last step. The MCP library makes the OAuth requests; see authorization-server.ts.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { FetchLike, OAuthClientInformationMixed, OAuthTokens } from '@modelcontextprotocol/client';
import { version } from '../../../../base/version.ts';
import { endpointFetch } from '../../../../server/egress/endpoint-fetch.ts';
import type { McpTransport } from '../../../../server/records/server.ts';
import { knownSecrets } from '../../../../server/secrets/redactor.ts';
import { boundFetch } from '../transport/bounded-fetch.ts';
import type { HttpTarget, McpLibrary } from '../transport/transport.ts';
import {
  type AuthorizationServer,
  clientOfRecord,
  type Discovery,
  discoverAuthorizationServer,
  type OAuthClient,
  tokenRequestOptions,
} from './authorization-server.ts';
import { type Challenge, readChallenge } from './challenge.ts';
import type { StoredLogin } from './login-store.ts';
import { bearerToken, type ServerTokensDeps } from './server-tokens.ts';
import { PermanentTokenError } from './token-errors.ts';

export interface LoginOptions extends Omit<ServerTokensDeps, 'url'> {
  readonly target: HttpTarget;
  readonly transport: McpTransport;
  /** Shows the user the address to log in at. */
  show(address: URL): void;
  /** Port of the redirect on this machine; 0: any free port. */
  readonly port: number;
  readonly signal: AbortSignal;
}

/** How long the user may take in the browser. */
const LOGIN_WAIT_MS = 5 * 60_000;
const STATE_BYTES = 32;

/** @throws PermanentTokenError, or the error of an endpoint that did not respond */
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
    const client =
      clientOfRecord(oauth, options.proof, library) ??
      (await newClient(server, redirect, scope, oauth.client_metadata_url, discovery));
    const tokens = await authorize(server, client, redirect, scope, options, discovery);
    const { scope: granted, expiresAtMs, renewAtMs } = bearerToken(tokens, scope, options.wallClock());
    const stored: StoredLogin = {
      version: 1,
      server_url: url.href,
      issuer: server.issuer,
      authorization_server: server.url,
      resource: server.resource,
      client: oauth.client_id === null ? storedClient(client.information) : null,
      access_token: tokens.access_token,
      refresh_token: tokens.refresh_token ?? null,
      scope: granted,
      expires_at_ms: expiresAtMs,
      renew_at_ms: renewAtMs,
      wanted_scope: null,
    };
    signal.throwIfAborted();
    logins.write(serverId, stored);
    return stored;
  } finally {
    await redirect.close();
  }
}

/** The scopes of the record, if it lists any; else those the server asks for, and `offline_access` for a refresh token. */
function scopeOf(
  { scope, metadata }: AuthorizationServer,
  listed: readonly string[],
  wanted: string | null,
  library: McpLibrary,
): string | null {
  if (listed.length > 0) return listed.join(' ');
  const union = library.computeScopeUnion(wanted ?? undefined, scope ?? undefined);
  if (union === undefined) return null;
  const offline = metadata?.scopes_supported?.includes('offline_access') === true ? 'offline_access' : undefined;
  return library.computeScopeUnion(union, offline) ?? null;
}

/** A client whose id is the URL of its metadata, if the server supports that; else one by dynamic registration. */
async function newClient(
  server: AuthorizationServer,
  redirect: LoopbackRedirect,
  scope: string | null,
  metadataUrl: string | null,
  { library, fetch }: Discovery,
): Promise<OAuthClient> {
  const { metadata } = server;
  if (metadataUrl !== null && metadata?.client_id_metadata_document_supported === true) {
    return { information: { client_id: metadataUrl }, addClientAuthentication: undefined };
  }
  if (metadata !== null && metadata.registration_endpoint === undefined) {
    throw new PermanentTokenError(
      `${server.issuer} does not support dynamic client registration; register a client there and set http.oauth.client_id`,
    );
  }
  const supported = metadata?.token_endpoint_auth_methods_supported ?? [];
  const method = ['none', 'client_secret_basic', 'client_secret_post'].find((each) => supported.includes(each));
  const information = await library.registerClient(server.url, {
    ...(metadata === null ? {} : { metadata }),
    ...(scope === null || !isSupportedScope(scope, metadata) ? {} : { scope }),
    clientMetadata: {
      client_name: 'Spear',
      redirect_uris: [redirect.url],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      application_type: 'native',
      ...(method === undefined ? {} : { token_endpoint_auth_method: method }),
    },
    fetchFn: fetch,
  });
  return { information, addClientAuthentication: undefined };
}

/** An authorization server may reject a registration with a scope that is not in its list, such as one of a resource. */
function isSupportedScope(scope: string, metadata: AuthorizationServer['metadata']): boolean {
  const supported = metadata?.scopes_supported;
  return supported === undefined || scope.split(' ').every((each) => supported.includes(each));
}

async function authorize(
  server: AuthorizationServer,
  client: OAuthClient,
  redirect: LoopbackRedirect,
  scope: string | null,
  { show, signal }: LoginOptions,
  { library, fetch }: Discovery,
): Promise<OAuthTokens> {
  const { addClientAuthentication: _, ...serverOptions } = tokenRequestOptions(server, client);
  const state = randomBytes(STATE_BYTES).toString('base64url');
  const { authorizationUrl, codeVerifier } = await library.startAuthorization(server.url, {
    ...serverOptions,
    clientInformation: client.information,
    redirectUrl: redirect.url,
    ...(scope === null ? {} : { scope }),
    state,
  });
  knownSecrets.addOfRecord(codeVerifier);
  const response = redirect.response(state, AbortSignal.any([signal, AbortSignal.timeout(LOGIN_WAIT_MS)]));
  show(authorizationUrl);
  const parameters = await response;
  const iss = parameters.get('iss') ?? undefined;
  library.validateAuthorizationResponseIssuer({
    iss,
    expectedIssuer: server.metadata?.issuer,
    issParameterSupported: server.metadata?.authorization_response_iss_parameter_supported === true,
  });
  const code = parameters.get('code');
  if (code === null) {
    const why = [parameters.get('error'), parameters.get('error_description')].filter((each) => each !== null);
    throw new PermanentTokenError(`the authorization server returned no code: ${why.join(': ') || 'no reason given'}`);
  }
  knownSecrets.addOfRecord(code);
  return library.exchangeAuthorization(server.url, {
    ...tokenRequestOptions(server, client),
    clientInformation: client.information,
    authorizationCode: code,
    ...(iss === undefined ? {} : { iss }),
    codeVerifier,
    redirectUri: redirect.url,
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

const PROBE_TIMEOUT_MS = 15_000;
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

/**
 * Connects without a token, to read the challenge with which the server refuses the handshake or `tools/list`. Null: the
 * server refuses nothing.
 */
async function probeChallenge({
  target,
  transport: kind,
  library,
  ...options
}: LoginOptions): Promise<Challenge | null> {
  let challenge: Challenge | null = null;
  /** Why a request failed; the library's own error says less. */
  let networkError: unknown = null;
  const signal = AbortSignal.any([options.signal, AbortSignal.timeout(PROBE_TIMEOUT_MS)]);
  const observedFetch: FetchLike = async (url, init) => {
    const signals = [signal, init?.signal].filter((each) => each != null);
    const response = await options.fetch(url, { ...init, signal: AbortSignal.any(signals) }).catch((error: unknown) => {
      networkError = error;
      throw error;
    });
    if (response.status === 401) challenge ??= readChallenge(response.headers.get('www-authenticate'));
    return response;
  };
  const bounds = { maxMessageBytes: MAX_MESSAGE_BYTES, tooLarge: () => {}, broken: () => {} };
  const transportOptions = {
    fetch: boundFetch(observedFetch, bounds),
    requestInit: { headers: { ...target.headers } },
  };
  const transport =
    kind === 'http_sse_legacy'
      ? new library.SSEClientTransport(target.url, transportOptions)
      : new library.StreamableHTTPClientTransport(target.url, transportOptions);
  const client = new library.Client(
    { name: 'spear', version },
    { capabilities: {}, versionNegotiation: { mode: 'auto' } },
  );
  try {
    await client.connect(transport, { timeout: PROBE_TIMEOUT_MS });
    await client.request({ method: 'tools/list' }, { timeout: PROBE_TIMEOUT_MS, signal });
  } catch {
    // A refusal is the purpose of the probe. Only an unreachable server is an error.
    if (networkError !== null && challenge === null) throw networkError;
  } finally {
    await client.close().catch(() => {});
  }
  options.signal.throwIfAborted();
  return challenge;
}

const HOST = '127.0.0.1';
const PATH = '/callback';
const ACCEPTED = 'Spear received the response. You can close this window and return to the terminal.\n';
const REJECTED = 'This is not the response to a pending login.\n';
/** Time for the browser to read the last page. */
const CLOSE_MS = 1_000;

/** The redirect URI of a login: an HTTP server on this machine. */
interface LoopbackRedirect {
  readonly url: string;
  /** The parameters of the first redirect with this state. Others get status 400 and are ignored. */
  response(state: string, signal: AbortSignal): Promise<URLSearchParams>;
  close(): Promise<void>;
}

async function openLoopbackRedirect(port: number): Promise<LoopbackRedirect> {
  let pending: { readonly state: string; readonly resolve: (parameters: URLSearchParams) => void } | null = null;
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const url = URL.parse(request.url ?? '', `http://${HOST}`);
    const isExpected =
      request.method === 'GET' && url?.pathname === PATH && url.searchParams.get('state') === pending?.state;
    response.writeHead(isExpected ? 200 : 400, {
      'content-type': 'text/plain; charset=utf-8',
      'cache-control': 'no-store',
      connection: 'close',
    });
    response.end(isExpected ? ACCEPTED : REJECTED);
    if (isExpected && url !== null) pending?.resolve(url.searchParams);
  });
  server.listen(port, HOST);
  await once(server, 'listening');
  return {
    url: `http://${HOST}:${(server.address() as AddressInfo).port}${PATH}`,
    response: (state, signal) =>
      new Promise((resolve, reject) => {
        const onAbort = () => reject(signal.reason);
        signal.addEventListener('abort', onAbort, { once: true });
        if (signal.aborted) onAbort();
        pending = {
          state,
          resolve: (parameters) => {
            signal.removeEventListener('abort', onAbort);
            resolve(parameters);
          },
        };
      }),
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeIdleConnections();
      setTimeout(() => server.closeAllConnections(), CLOSE_MS).unref();
      await closed;
    },
  };
}
