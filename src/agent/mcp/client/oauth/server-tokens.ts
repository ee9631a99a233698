/**
 * Access tokens of MCP servers: obtains, caches and renews the `Authorization` header of each server.
 *
 * - Tokens are cached in memory ({@link TokenCache}); tokens of a user login are also on disk (login-store.ts), where
 *   several processes share them under a file lock.
 * - One request for a token is in flight per server; concurrent callers wait for its result.
 * - A token is renewed before it expires, and after the server refused it. The original request never ran in that case,
 *   so it is sent again.
 * - A token is sent only to the origin of its server.
 * - Only `spear servers login` (login.ts) asks a user; this file fails with an error that names that command.
 */
import type { FetchLike, OAuthTokens } from '@modelcontextprotocol/client';
import { isHeaderValue } from '../../../../base/text.ts';
import { endpointFetch } from '../../../../server/egress/endpoint-fetch.ts';
import type { HttpClient } from '../../../../server/egress/http-client.ts';
import { connectionKey } from '../../../../server/records/record-kind.ts';
import type { McpOAuth, McpServerRecord } from '../../../../server/records/server.ts';
import { knownSecrets } from '../../../../server/secrets/redactor.ts';
import { McpConnectionError } from '../errors.ts';
import type { ClientProof, ResolvedRecord } from '../resolved-record.ts';
import type { HttpTarget, McpLibrary } from '../transport/transport.ts';
import {
  type AuthorizationServer,
  clientCredentialsToken,
  clientOfRecord,
  type Discovery,
  discoverAuthorizationServer,
  metadataOf,
  sameIssuer,
  tokenRequestOptions,
} from './authorization-server.ts';
import { type Challenge, readChallenge, type TokenRefusal, tokenRefusal } from './challenge.ts';
import { LoginStore, type StoredLogin } from './login-store.ts';
import { PermanentTokenError, tokenFailure } from './token-errors.ts';

/** A token in the form in which it is sent. */
interface BearerToken {
  readonly header: string;
  /** The granted scope, else the requested one. */
  readonly scope: string | null;
  /** Null: unknown. */
  readonly expiresAtMs: number | null;
  readonly renewAtMs: number | null;
}

/** A token is renewed this long before it expires, or when this part of its lifetime is left: clocks differ. */
const RENEW_BEFORE_MS = 30_000;
const RENEW_BEFORE_PART = 0.2;

export function bearerToken(tokens: OAuthTokens, requestedScope: string | null, nowMs: number): BearerToken {
  const { access_token, token_type, scope, expires_in } = tokens;
  if (token_type.toLowerCase() !== 'bearer') {
    throw new PermanentTokenError(`the token has type ${JSON.stringify(token_type)}; only bearer tokens are supported`);
  }
  const header = `Bearer ${access_token}`;
  if (!isHeaderValue(header))
    throw new PermanentTokenError('the token has characters that an HTTP header cannot carry');
  knownSecrets.addOfRecord(access_token);
  const token = { header, scope: scope ?? requestedScope };
  if (expires_in === undefined) return { ...token, expiresAtMs: null, renewAtMs: null };
  const lifeMs = expires_in * 1_000;
  const expiresAtMs = nowMs + lifeMs;
  return { ...token, expiresAtMs, renewAtMs: expiresAtMs - Math.min(RENEW_BEFORE_MS, lifeMs * RENEW_BEFORE_PART) };
}

const isPast = (timeMs: number | null, nowMs: number) => timeMs !== null && nowMs >= timeMs;

export interface ServerTokensDeps {
  readonly serverId: string;
  readonly url: URL;
  readonly oauth: McpOAuth;
  readonly proof: ClientProof;
  readonly library: McpLibrary;
  readonly fetch: FetchLike;
  readonly logins: LoginStore;
  /** Milliseconds since 1970: expiry times are stored and outlive the process. */
  readonly wallClock: () => number;
}

/** The token of one server. */
export class ServerTokens {
  readonly #deps: ServerTokensDeps;
  readonly #discovery: Discovery;
  #token: BearerToken | null = null;
  /** Discovered with the first token. */
  #server: AuthorizationServer | null = null;
  #renewing: Promise<boolean> | null = null;

  constructor(deps: ServerTokensDeps) {
    this.#deps = deps;
    this.#discovery = { library: deps.library, fetch: endpointFetch(deps.fetch) };
  }

  /**
   * The header for a request; a promise if a token must be obtained first. Null: there is no token yet, and a request
   * without one makes the server send its challenge.
   * @throws McpError
   */
  authorization(): string | null | Promise<string | null> {
    const token = this.#token;
    if (token === null) return this.#deps.oauth.grant === 'authorization_code' ? this.#loggedIn() : null;
    return isPast(token.renewAtMs, this.#deps.wallClock()) ? this.#renewEarly(token) : token.header;
  }

  /**
   * Renews the token after the server refused a request with the header `used`. False: another token would not help.
   * @throws McpError if another token would help and cannot be obtained
   */
  async renewed(used: string | null, refusal: TokenRefusal): Promise<boolean> {
    if (this.#token !== null && this.#token.header !== used) return true;
    return this.#once(() => (refusal.kind === 'unauthorized' ? this.#renew(refusal) : this.#stepUp(refusal.challenge)));
  }

  /** A failed renewal is ignored until the old token expires. */
  async #renewEarly(token: BearerToken): Promise<string> {
    try {
      await this.#once(() => this.#renew(null));
    } catch (error) {
      if (isPast(token.expiresAtMs, this.#deps.wallClock())) throw error;
    }
    return (this.#token ?? token).header;
  }

  #once(work: () => Promise<boolean>): Promise<boolean> {
    this.#renewing ??= work()
      .catch((error: unknown) => {
        throw tokenFailure(error, this.#deps.serverId, this.#deps.library);
      })
      .finally(() => {
        this.#renewing = null;
      });
    return this.#renewing;
  }

  async #renew(refusal: TokenRefusal | null): Promise<boolean> {
    if (this.#deps.oauth.grant === 'authorization_code') return this.#refresh();
    // A server that refuses a token may have moved to another authorization server.
    if (refusal !== null || this.#server === null) this.#server = await this.#discover(refusal?.challenge ?? null);
    await this.#obtain(this.#server, this.#token?.scope ?? this.#scopeFor(this.#server.scope));
    return true;
  }

  /** Requests a wider scope, if that needs no user and the record does not list the scopes. */
  async #stepUp({ scope }: Challenge): Promise<boolean> {
    const { oauth, library } = this.#deps;
    if (scope === null || oauth.scopes.length > 0) return false;
    const wanted = library.computeScopeUnion(this.#token?.scope ?? undefined, scope);
    if (wanted === undefined || !library.isStrictScopeSuperset(wanted, this.#token?.scope ?? undefined)) return false;
    if (oauth.grant === 'authorization_code') throw this.#scopeNeeded(wanted, scope);
    this.#server ??= await this.#discover(null);
    await this.#obtain(this.#server, wanted);
    return true;
  }

  async #obtain(server: AuthorizationServer, scope: string | null): Promise<void> {
    const { oauth, proof, library, wallClock } = this.#deps;
    const client = clientOfRecord(oauth, proof, library);
    if (client === null) throw new PermanentTokenError('http.oauth.client_id is missing');
    this.#token = bearerToken(await clientCredentialsToken(client, server, scope, this.#discovery), scope, wallClock());
  }

  #discover(challenge: Challenge | null): Promise<AuthorizationServer> {
    const { url, oauth } = this.#deps;
    return discoverAuthorizationServer(url, challenge, oauth.issuer, this.#discovery);
  }

  #scopeFor(wanted: string | null): string | null {
    const { scopes } = this.#deps.oauth;
    return scopes.length > 0 ? scopes.join(' ') : wanted;
  }

  async #loggedIn(): Promise<string> {
    const { serverId, library, wallClock } = this.#deps;
    let token: BearerToken;
    try {
      token = this.#adopt(this.#stored());
    } catch (error) {
      throw tokenFailure(error, serverId, library);
    }
    return isPast(token.renewAtMs, wallClock()) ? this.#renewEarly(token) : token.header;
  }

  #stored(): StoredLogin {
    const { serverId, url, oauth, logins } = this.#deps;
    const login = logins.read(serverId, url);
    if (login === null) throw this.#loginNeeded('this machine has no login for it');
    if (oauth.issuer !== null && !sameIssuer(oauth.issuer, login.issuer)) {
      throw this.#loginNeeded('the login was made with another authorization server than http.oauth.issuer');
    }
    return login;
  }

  #adopt(login: StoredLogin): BearerToken {
    const { access_token, scope, expires_at_ms: expiresAtMs, renew_at_ms: renewAtMs } = login;
    this.#token = { ...bearerToken({ access_token, token_type: 'Bearer' }, scope, 0), expiresAtMs, renewAtMs };
    return this.#token;
  }

  /** Uses the refresh token of the login, unless another process stored a new access token in the meantime. */
  async #refresh(): Promise<boolean> {
    const { serverId, logins, library, oauth, proof, wallClock } = this.#deps;
    const used = this.#token?.header ?? null;
    return logins.locked(serverId, async () => {
      const login = this.#stored();
      const stored = this.#adopt(login);
      if (stored.header !== used && !isPast(stored.renewAtMs, wallClock())) return true;
      if (login.refresh_token === null)
        throw this.#loginNeeded('its access token is no longer accepted and there is no refresh token');
      const recordClient = clientOfRecord(oauth, proof, library);
      const information = recordClient?.information ?? login.client;
      if (information === null)
        throw this.#loginNeeded('the login was made with another client than http.oauth.client_id');
      const client = { information, addClientAuthentication: recordClient?.addClientAuthentication };
      const { metadata } = await metadataOf(login.authorization_server, this.#discovery);
      const tokens = await library
        .refreshAuthorization(login.authorization_server, {
          ...tokenRequestOptions({ metadata, resource: login.resource }, client),
          clientInformation: information,
          refreshToken: login.refresh_token,
          fetchFn: this.#discovery.fetch,
        })
        .catch((error: unknown) => {
          throw this.#isExpiredLogin(error) ? this.#loginNeeded('its login has expired or was revoked') : error;
        });
      const token = bearerToken(tokens, login.scope, wallClock());
      this.#token = token;
      logins.write(serverId, {
        ...login,
        access_token: tokens.access_token,
        refresh_token: tokens.refresh_token ?? login.refresh_token,
        scope: token.scope,
        expires_at_ms: token.expiresAtMs,
        renew_at_ms: token.renewAtMs,
      });
      return true;
    });
  }

  #isExpiredLogin(error: unknown): boolean {
    const { OAuthError, OAuthErrorCode } = this.#deps.library;
    if (!(error instanceof OAuthError)) return false;
    return error.code === OAuthErrorCode.InvalidGrant || error.code === OAuthErrorCode.InvalidClient;
  }

  /** Stores the scope, for the next login of the user to request. */
  #scopeNeeded(wanted: string, missing: string): McpConnectionError {
    const { serverId, url, logins } = this.#deps;
    const login = logins.read(serverId, url);
    if (login !== null) logins.write(serverId, { ...login, wanted_scope: wanted });
    return this.#loginNeeded(`insufficient_scope: required scope ${missing}`);
  }

  #loginNeeded(why: string): McpConnectionError {
    const { serverId } = this.#deps;
    this.#token = null;
    const message = `server "${serverId}" needs a login: ${why}; run: spear servers login ${serverId}`;
    return new McpConnectionError(serverId, 'unauthorized', message, 'stands');
  }
}

/** The tokens of all servers of a pool. They outlive the connections to the servers. */
export class TokenCache {
  readonly #logins: LoginStore;
  readonly #entries = new Map<string, { readonly tokens: ServerTokens; readonly key: string }>();

  constructor(loginsDir: string) {
    this.#logins = new LoginStore(loginsDir);
  }

  /** Null: the record has no `http.oauth`. A changed record or secret gets new tokens. */
  of(
    record: McpServerRecord,
    resolved: ResolvedRecord & { readonly http: HttpTarget },
    library: McpLibrary,
    { fetch }: HttpClient,
  ): ServerTokens | null {
    const { server_id: serverId } = record;
    const oauth = record.http?.oauth ?? null;
    if (oauth === null) return null;
    const { clientProof: proof } = resolved;
    const { url } = resolved.http;
    const key = JSON.stringify([connectionKey(record), url.href, proof]);
    const cached = this.#entries.get(serverId);
    if (cached?.key === key) return cached.tokens;
    const deps = { serverId, url, oauth, proof, library, fetch, logins: this.#logins, wallClock: Date.now };
    const tokens = new ServerTokens(deps);
    this.#entries.set(serverId, { tokens, key });
    return tokens;
  }

  delete(serverId: string): void {
    this.#entries.delete(serverId);
  }
}

/**
 * A fetch that adds the token of the server. A refused request never ran, so it is repeated at most twice: once with a
 * new token, once with a wider scope.
 */
export function authorizedFetch(fetch: FetchLike, server: URL, tokens: ServerTokens): FetchLike {
  return async (url, init) => {
    if (!isWithin(server, url)) return fetch(url, init);
    const retried = new Set<TokenRefusal['kind']>();
    for (;;) {
      const used = await tokens.authorization();
      const headers = new Headers(init?.headers);
      if (used !== null) headers.set('authorization', used);
      const response = await fetch(url, { ...init, headers });
      const refusal = tokenRefusal(response.status, readChallenge(response.headers.get('www-authenticate')));
      if (refusal === null || retried.has(refusal.kind)) return response;
      retried.add(refusal.kind);
      if (!(await tokens.renewed(used, refusal))) return response;
      await response.body?.cancel();
    }
  };
}

/** The https form of an http server counts as the same server. */
function isWithin(server: URL, address: string | URL): boolean {
  const url = new URL(address);
  if (url.origin === server.origin) return true;
  return server.protocol === 'http:' && url.protocol === 'https:' && url.host === server.host && url.port === '';
}
