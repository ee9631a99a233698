import type { FetchLike, OAuthTokens } from '@modelcontextprotocol/client';
import { endpointFetch } from '../../../../server/egress/endpoint-fetch.ts';
import type { McpOAuth } from '../../../../server/records/record.ts';
import { McpConnectionError } from '../errors.ts';
import type { ClientProof } from '../resolved-record.ts';
import type { McpLibrary } from '../transport/transport.ts';
import {
  type AuthorizationServer,
  type Discovery,
  discoverAuthorizationServer,
  metadataOf,
  sameIssuer,
} from './authorization-server.ts';
import type { Challenge, TokenRefusal } from './challenge.ts';
import { clientCredentialsToken, clientOfRecord } from './client-credentials.ts';
import { type HeldToken, heldToken, isDue, isExpired } from './held-token.ts';
import type { LoginStore, StoredLogin } from './login-store.ts';
import { OAuthRefused, oauthFailure } from './oauth-failure.ts';

export interface ServerTokensDeps {
  readonly serverId: string;
  readonly url: URL;
  readonly oauth: McpOAuth;
  readonly proof: ClientProof;
  readonly library: McpLibrary;
  readonly fetch: FetchLike;
  readonly logins: LoginStore;
  /** Milliseconds since 1970: what is stored outlives the process. */
  readonly wallClock: () => number;
}

/**
 * The token of one server, and the only one that says what its `Authorization` header is. It is kept in memory, got
 * anew before it expires or when the server does not take it, and one attempt at a time serves all who wait.
 */
export class ServerTokens {
  readonly #deps: ServerTokensDeps;
  readonly #discovery: Discovery;
  #held: HeldToken | null = null;
  /** What was found out when the first token was got. */
  #server: AuthorizationServer | null = null;
  #renewing: Promise<boolean> | null = null;

  constructor(deps: ServerTokensDeps) {
    this.#deps = deps;
    this.#discovery = { library: deps.library, fetch: endpointFetch(deps.fetch) };
  }

  /**
   * The header for a request now; a promise where it takes a while. Null: there is no token yet, and the server is
   * asked without one to say what it wants.
   * @throws McpError
   */
  authorization(): string | null | Promise<string | null> {
    const held = this.#held;
    if (held === null) return this.#deps.oauth.grant === 'authorization_code' ? this.#loggedIn() : null;
    return isDue(held, this.#deps.wallClock()) ? this.#inTime(held) : held.header;
  }

  /**
   * After the server refused a request with `used`. False: another token would not help.
   * @throws McpError where one would, and there is none
   */
  async renewed(used: string | null, refusal: TokenRefusal): Promise<boolean> {
    if (this.#held !== null && this.#held.header !== used) return true;
    return this.#once(() => (refusal.kind === 'unauthorized' ? this.#renew(refusal) : this.#stepUp(refusal.challenge)));
  }

  async #inTime(held: HeldToken): Promise<string> {
    try {
      await this.#once(() => this.#renew(null));
    } catch (error) {
      if (isExpired(held, this.#deps.wallClock())) throw error;
    }
    return (this.#held ?? held).header;
  }

  #once(work: () => Promise<boolean>): Promise<boolean> {
    this.#renewing ??= work()
      .catch((error: unknown) => {
        throw oauthFailure(error, this.#deps.serverId, this.#deps.library);
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
    await this.#obtain(this.#server, this.#held?.scope ?? this.#scopeFor(this.#server.scope));
    return true;
  }

  /** A wider token, where nobody has to be asked for it and the record does not say how far it may go. */
  async #stepUp({ scope }: Challenge): Promise<boolean> {
    const { oauth, library } = this.#deps;
    if (scope === null || oauth.scopes.length > 0) return false;
    const wanted = library.computeScopeUnion(this.#held?.scope ?? undefined, scope);
    if (wanted === undefined || !library.isStrictScopeSuperset(wanted, this.#held?.scope ?? undefined)) return false;
    if (oauth.grant === 'authorization_code') throw this.#wanting(wanted, scope);
    this.#server ??= await this.#discover(null);
    await this.#obtain(this.#server, wanted);
    return true;
  }

  async #obtain(server: AuthorizationServer, scope: string | null): Promise<void> {
    const { oauth, proof, library } = this.#deps;
    const client = clientOfRecord(oauth, proof, library);
    if (client === null) throw new OAuthRefused('http.oauth.client_id is missing');
    this.#hold(await clientCredentialsToken(client, server, scope, this.#discovery), scope);
  }

  #discover(challenge: Challenge | null): Promise<AuthorizationServer> {
    const { url, oauth } = this.#deps;
    return discoverAuthorizationServer(url, challenge, oauth.issuer, this.#discovery);
  }

  #scopeFor(wanted: string | null): string | null {
    const { scopes } = this.#deps.oauth;
    return scopes.length > 0 ? scopes.join(' ') : wanted;
  }

  #hold(tokens: OAuthTokens, asked: string | null): HeldToken {
    this.#held = heldToken(tokens, asked, this.#deps.wallClock());
    return this.#held;
  }

  async #loggedIn(): Promise<string> {
    const { serverId, library, wallClock } = this.#deps;
    try {
      const held = this.#take(this.#stored());
      if (!isDue(held, wallClock())) return held.header;
    } catch (error) {
      throw oauthFailure(error, serverId, library);
    }
    return this.#inTime(this.#held as HeldToken);
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

  #take(login: StoredLogin): HeldToken {
    const { access_token, scope, expires_at_ms: expiresAtMs, renew_at_ms: renewAtMs } = login;
    this.#held = { ...heldToken({ access_token, token_type: 'Bearer' }, scope, 0), expiresAtMs, renewAtMs };
    return this.#held;
  }

  /** What another process has brought since is as good as what we could bring. */
  async #refresh(): Promise<boolean> {
    const { serverId, logins, library, oauth, proof, wallClock } = this.#deps;
    const used = this.#held?.header ?? null;
    return logins.locked(serverId, async () => {
      const login = this.#stored();
      const stored = this.#take(login);
      if (stored.header !== used && !isDue(stored, wallClock())) return true;
      if (login.refresh_token === null)
        throw this.#loginNeeded('its access token is no longer accepted and there is no refresh token');
      const client = clientOfRecord(oauth, proof, library);
      const information = client?.information ?? login.client;
      if (information === null)
        throw this.#loginNeeded('the login was made with another client than http.oauth.client_id');
      const { metadata } = await metadataOf(login.authorization_server, this.#discovery);
      const tokens = await library
        .refreshAuthorization(login.authorization_server, {
          ...(metadata === null ? {} : { metadata }),
          clientInformation: information,
          refreshToken: login.refresh_token,
          ...(login.resource === null ? {} : { resource: login.resource }),
          ...(client?.addClientAuthentication === undefined
            ? {}
            : { addClientAuthentication: client.addClientAuthentication }),
          fetchFn: this.#discovery.fetch,
        })
        .catch((error: unknown) => {
          throw this.#isOver(error) ? this.#loginNeeded('its login has expired or was revoked') : error;
        });
      const held = this.#hold(tokens, login.scope);
      logins.write(serverId, {
        ...login,
        access_token: tokens.access_token,
        refresh_token: tokens.refresh_token ?? login.refresh_token,
        scope: held.scope,
        expires_at_ms: held.expiresAtMs,
        renew_at_ms: held.renewAtMs,
      });
      return true;
    });
  }

  #isOver(error: unknown): boolean {
    const { OAuthError, OAuthErrorCode } = this.#deps.library;
    if (!(error instanceof OAuthError)) return false;
    return error.code === OAuthErrorCode.InvalidGrant || error.code === OAuthErrorCode.InvalidClient;
  }

  /** Somebody has to consent: the next login asks for it. */
  #wanting(wanted: string, missing: string): McpConnectionError {
    const { serverId, url, logins } = this.#deps;
    const login = logins.read(serverId, url);
    if (login !== null) logins.write(serverId, { ...login, wanted_scope: wanted });
    return this.#loginNeeded(`insufficient_scope: required scope ${missing}`);
  }

  #loginNeeded(why: string): McpConnectionError {
    const { serverId } = this.#deps;
    this.#held = null;
    const message = `server "${serverId}" needs a login: ${why}; run: spear servers login ${serverId}`;
    return new McpConnectionError(serverId, 'unauthorized', message, 'stands');
  }
}
