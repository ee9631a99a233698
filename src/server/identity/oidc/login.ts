import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isJsonObject, type JsonObject, parseJson } from '../../../base/json.ts';
import type { OidcConfig } from '../../../config/registry/oidc.ts';
import type { Secret } from '../../secrets/secret.ts';
import type { Identity } from '../identity.ts';
import { identityOfClaims } from './claims.ts';
import { type Issuer, type IssuerEndpoints, type IssuerFetch, IssuerUnavailable } from './issuer.ts';
import type { OidcTokens } from './oidc-tokens.ts';

/** For somebody to log in at the issuer. */
const LOGIN_MS = 10 * 60_000;
/** For a page to take over what the browser brought back. */
const EXCHANGE_MS = 60_000;
/** Under way at one time; the oldest gives way. */
const MAX_LOGINS = 1_000;
const RANDOM_BYTES = 32;

/** The login cannot go on; in words for who wanted in. */
export class LoginRefused extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'LoginRefused';
  }
}

export interface LoginWish {
  /** The sha256 of a secret of the page that began: only that page gets the session. */
  readonly challenge: string;
  /** Where the browser goes afterwards, a path of ours. */
  readonly returnTo: string;
  /** Where the issuer sends the browser back to. */
  readonly redirectUri: string;
}

interface PendingLogin extends LoginWish {
  readonly nonce: string;
  readonly verifier: string;
  readonly untilMs: number;
}

interface FinishedLogin {
  readonly challenge: string;
  readonly identity: Identity;
  readonly untilMs: number;
}

export interface LoginsDeps {
  readonly config: OidcConfig;
  /** Null: a public client. */
  readonly clientSecret: Secret | null;
  readonly issuer: Issuer;
  readonly tokens: OidcTokens;
  readonly fetch: IssuerFetch;
}

/**
 * Logins by the authorization code flow with PKCE. The page that begins one keeps a secret and shows its digest; what
 * the browser brings back is a code that is worth nothing without that secret. So nobody can log somebody else's
 * browser in, and no cookie is needed on the way.
 */
export class Logins {
  readonly #deps: LoginsDeps;
  readonly #pending = new Map<string, PendingLogin>();
  readonly #finished = new Map<string, FinishedLogin>();

  constructor(deps: LoginsDeps) {
    this.#deps = deps;
  }

  /** Where to send the browser. @throws IssuerUnavailable */
  async begin(wish: LoginWish): Promise<string> {
    const { config, issuer } = this.#deps;
    const { authorization } = await issuer.endpoints();
    const [state, nonce, verifier] = [random(), random(), random()];
    keep(this.#pending, state, { ...wish, nonce, verifier, untilMs: Date.now() + LOGIN_MS });
    const url = new URL(authorization);
    const asked = {
      response_type: 'code',
      client_id: config.clientId,
      redirect_uri: wish.redirectUri,
      scope: config.scopes.join(' '),
      state,
      nonce,
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
    };
    for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value);
    return url.href;
  }

  /** What the issuer sent the browser back with: where it goes now, and with which code. @throws LoginRefused */
  async finish(answer: URLSearchParams): Promise<{ readonly returnTo: string; readonly code: string }> {
    const login = take(this.#pending, answer.get('state') ?? '');
    if (login === null) throw new LoginRefused('this login is unknown, expired or already completed; log in again');
    const { config } = this.#deps;
    const issuer = answer.get('iss');
    const isUnnamed = issuer === null && !(await this.#deps.issuer.endpoints()).namesItself;
    if (issuer !== config.issuer && !isUnnamed) throw new LoginRefused('the response is from a different issuer');
    const code = answer.get('code');
    if (code === null) {
      // Its own words are not repeated: they are whatever the address says.
      throw new LoginRefused(`the issuer rejected the login (${plainWord(answer.get('error'))})`);
    }
    const identity = await this.#identityBy(code, login);
    const exchange = random();
    keep(this.#finished, exchange, { challenge: login.challenge, identity, untilMs: Date.now() + EXCHANGE_MS });
    return { returnTo: login.returnTo, code: exchange };
  }

  /** Who logged in; the code is used up by asking. @throws LoginRefused */
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

/** As RFC 6749 wants them, each encoded before they are joined. */
function basic(id: string, secret: string): string {
  const encoded = [id, secret].map((part) => new URLSearchParams({ '': part }).toString().slice(1)).join(':');
  return `Basic ${Buffer.from(encoded).toString('base64')}`;
}

function plainWord(value: unknown): string {
  return typeof value === 'string' && /^[a-z_]{1,64}$/.test(value) ? value : 'no reason given';
}

function keep<T>(map: Map<string, T>, key: string, value: T): void {
  const oldest = map.keys().next().value;
  if (map.size >= MAX_LOGINS && oldest !== undefined) map.delete(oldest);
  map.set(key, value);
}

function take<T extends { readonly untilMs: number }>(map: Map<string, T>, key: string): T | null {
  const value = map.get(key);
  map.delete(key);
  return value === undefined || value.untilMs <= Date.now() ? null : value;
}
