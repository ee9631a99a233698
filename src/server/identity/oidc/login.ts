/**
 * Browser logins at an OIDC issuer: authorization code flow with PKCE.
 *
 * - The page that begins a login keeps a secret and sends its digest as a challenge. After the login the browser brings
 *   back a code that is worthless without that secret, so no attacker can log in another user's browser (login CSRF),
 *   and no cookie is needed during the login.
 * - `state`, `nonce` and the PKCE verifier are random and belong to one login. The redirect must come from the configured
 *   issuer (RFC 9207), and the ID token must be for this client and this login.
 * - Pending logins are in memory: bounded in number and time, and each can be completed once.
 * - The flow is written by hand: oauth4webapi would take over four of its checks and the token request (about 45 lines),
 *   needs as many lines of adapters for the issuer's cache, the egress-checked fetch and the error messages, and rejects
 *   a redirect with both `code` and `error`, which is accepted here.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isJsonObject, type JsonObject, parseJson } from '../../../base/json.ts';
import type { OidcConfig } from '../../../config/registry/oidc.ts';
import type { Identity } from '../../records/permissions.ts';
import type { Secret } from '../../secrets/secret.ts';
import { type Issuer, type IssuerEndpoints, type IssuerFetch, IssuerUnavailable } from './issuer.ts';
import type { OidcTokens } from './oidc-tokens.ts';
import { identityOfClaims } from './oidc-tokens.ts';

/** How long a user may take at the issuer. */
const LOGIN_MS = 10 * 60_000;
/** How long a page may take to exchange its code. */
const EXCHANGE_MS = 60_000;
/** Above the limit the oldest pending login is evicted. */
const MAX_LOGINS = 1_000;
const RANDOM_BYTES = 32;

/** A login that failed, with a message for the user. */
export class LoginRefused extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'LoginRefused';
  }
}

interface LoginRequest {
  /** The sha256 of the secret of the page, in hex: only that page gets the session. */
  readonly challenge: string;
  /** Path on this server to return to after the login. */
  readonly returnTo: string;
  /** The redirect URI of this registry. */
  readonly redirectUri: string;
}

interface PendingLogin extends LoginRequest {
  readonly nonce: string;
  readonly verifier: string;
  readonly untilMs: number;
}

interface FinishedLogin {
  readonly challenge: string;
  readonly identity: Identity;
  readonly untilMs: number;
}

interface LoginsDeps {
  readonly config: OidcConfig;
  /** Null: a public client. */
  readonly clientSecret: Secret | null;
  readonly issuer: Issuer;
  readonly tokens: OidcTokens;
  readonly fetch: IssuerFetch;
}

export class Logins {
  readonly #deps: LoginsDeps;
  readonly #pending = new Map<string, PendingLogin>();
  readonly #finished = new Map<string, FinishedLogin>();

  constructor(deps: LoginsDeps) {
    this.#deps = deps;
  }

  /** The URL of the issuer to send the browser to. @throws IssuerUnavailable */
  async begin(request: LoginRequest): Promise<string> {
    const { config, issuer } = this.#deps;
    const { authorization } = await issuer.endpoints();
    const [state, nonce, verifier] = [random(), random(), random()];
    add(this.#pending, state, { ...request, nonce, verifier, untilMs: Date.now() + LOGIN_MS });
    const url = new URL(authorization);
    const parameters = {
      response_type: 'code',
      client_id: config.clientId,
      redirect_uri: request.redirectUri,
      scope: config.scopes.join(' '),
      state,
      nonce,
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
    };
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    return url.href;
  }

  /** Completes a login from the parameters of the redirect: where to send the browser, with which code. @throws LoginRefused */
  async finish(redirect: URLSearchParams): Promise<{ readonly returnTo: string; readonly code: string }> {
    const login = take(this.#pending, redirect.get('state') ?? '');
    if (login === null) throw new LoginRefused('this login is unknown, expired or already completed; log in again');
    const { config } = this.#deps;
    const issuer = redirect.get('iss');
    const isUnnamed = issuer === null && !(await this.#deps.issuer.endpoints()).namesItself;
    if (issuer !== config.issuer && !isUnnamed) throw new LoginRefused('the response is from a different issuer');
    const code = redirect.get('code');
    if (code === null) {
      // The URL controls the description of the error, so it is not repeated.
      throw new LoginRefused(`the issuer rejected the login (${plainWord(redirect.get('error'))})`);
    }
    const identity = await this.#identityBy(code, login);
    const exchange = random();
    add(this.#finished, exchange, { challenge: login.challenge, identity, untilMs: Date.now() + EXCHANGE_MS });
    return { returnTo: login.returnTo, code: exchange };
  }

  /** The user of a completed login. The code can be used once. @throws LoginRefused */
  exchange(code: string, secret: string): Identity {
    const login = take(this.#finished, code);
    const given = createHash('sha256').update(secret).digest();
    if (login === null || !timingSafeEqual(given, Buffer.from(login.challenge, 'hex'))) {
      throw new LoginRefused('the login code is invalid or expired; log in again');
    }
    return login.identity;
  }

  async #identityBy(code: string, { nonce, verifier, redirectUri }: PendingLogin): Promise<Identity> {
    const { config, issuer, tokens } = this.#deps;
    const answer = await this.#redeem(await issuer.endpoints(), { code, verifier, redirectUri });
    const idToken = answer.id_token;
    if (typeof idToken !== 'string')
      throw new LoginRefused('the issuer returned no ID token; oidc.scopes must include openid');
    const claims = await tokens.claimsOf(idToken, [config.clientId]);
    if (claims === 'unavailable') throw new IssuerUnavailable(config.issuer, 'its keys cannot be loaded');
    if (typeof claims === 'string' || claims.nonce !== nonce) {
      throw new LoginRefused('the ID token of the issuer is not valid for this login');
    }
    const identity = identityOfClaims(claims, config);
    if (identity === null) {
      throw new LoginRefused(
        `the ID token has no user name or no namespace (claims ${config.nameClaim}, ${config.namespaceClaim ?? 'none'})`,
      );
    }
    return { ...identity, expiresAtMs: Date.now() + config.sessionMs };
  }

  async #redeem(
    { token, secretIn }: IssuerEndpoints,
    { code, verifier, redirectUri }: { readonly code: string; readonly verifier: string; readonly redirectUri: string },
  ): Promise<JsonObject> {
    const { clientSecret, config } = this.#deps;
    const { clientId, issuer } = config;
    const form = new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      redirect_uri: redirectUri,
      code_verifier: verifier,
      client_id: clientId,
    });
    const headers: Record<string, string> = { accept: 'application/json' };
    if (clientSecret !== null && secretIn === 'body') form.set('client_secret', clientSecret.reveal());
    else if (clientSecret !== null) headers.authorization = basic(clientId, clientSecret.reveal());
    const response = await this.#deps.fetch(token, { method: 'POST', body: form, headers }).catch((error: unknown) => {
      throw new IssuerUnavailable(issuer, String(error));
    });
    const answer = parseJson(await response.text());
    if (response.status === 200 && isJsonObject(answer)) return answer;
    const why = isJsonObject(answer) ? plainWord(answer.error) : 'no reason given';
    throw new LoginRefused(`the issuer rejected the authorization code (status ${response.status}, ${why})`);
  }
}

const random = () => randomBytes(RANDOM_BYTES).toString('base64url');

/** HTTP basic authentication of a client: RFC 6749 encodes id and secret before they are joined. */
function basic(id: string, secret: string): string {
  const encoded = [id, secret].map((part) => new URLSearchParams({ '': part }).toString().slice(1)).join(':');
  return `Basic ${Buffer.from(encoded).toString('base64')}`;
}

function plainWord(value: unknown): string {
  return typeof value === 'string' && /^[a-z_]{1,64}$/.test(value) ? value : 'no reason given';
}

function add<T>(map: Map<string, T>, key: string, value: T): void {
  const oldest = map.keys().next().value;
  if (map.size >= MAX_LOGINS && oldest !== undefined) map.delete(oldest);
  map.set(key, value);
}

function take<T extends { readonly untilMs: number }>(map: Map<string, T>, key: string): T | null {
  const value = map.get(key);
  map.delete(key);
  return value === undefined || value.untilMs <= Date.now() ? null : value;
}
