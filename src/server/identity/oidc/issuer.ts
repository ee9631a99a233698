/**
 * An OpenID Connect issuer: loads its endpoints and public keys on demand and caches them.
 *
 * - The cache is fresh for 10 minutes, so a revoked key is not accepted for long. If the issuer is unreachable, cached
 *   keys remain valid for an hour.
 * - Requests are at least 10 s apart, failed ones included: neither tokens with unknown key ids nor an outage cause a
 *   request each. One request is in flight; concurrent callers wait for it.
 * - jose's `createRemoteJWKSet` is not used: it discards keys once they are stale and repeats failed requests without a
 *   pause, and nodes need the keys as values.
 */
import { errorText } from '../../../base/errors.ts';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../../base/json.ts';
import { isSecureUrl } from '../../../config/address.ts';
import { matchingKeys, type PublishedKey, publishedKey, type SignedToken } from './signed-token.ts';

/** From the provider configuration of an issuer. */
export interface IssuerEndpoints {
  readonly keys: string;
  readonly authorization: string;
  readonly token: string;
  /** How a client authenticates with its secret. */
  readonly secretIn: 'header' | 'body';
  /** Whether its redirects have an `iss` parameter (RFC 9207); if so, redirects without it are rejected. */
  readonly namesItself: boolean;
}

/** The issuer is unreachable, or its configuration cannot be used. */
export class IssuerUnavailable extends Error {
  constructor(issuer: string, why: string) {
    super(`the issuer ${issuer} is unavailable: ${why}`);
    this.name = 'IssuerUnavailable';
  }
}

export type IssuerFetch = (url: string, init?: RequestInit) => Promise<Response>;

interface IssuerOptions {
  readonly issuer: string;
  readonly fetch: IssuerFetch;
  /** Called for each failed request. */
  readonly onProblem: (problem: string) => void;
  readonly now?: () => number;
}

const FRESH_MS = 10 * 60_000;
const STALE_MS = 60 * 60_000;
const COOLDOWN_MS = 10_000;
const MAX_KEYS = 64;

interface IssuerData {
  readonly endpoints: IssuerEndpoints;
  readonly keys: readonly PublishedKey[];
  readonly atMs: number;
}

export class Issuer {
  readonly #options: IssuerOptions;
  readonly #now: () => number;
  #data: IssuerData | null = null;
  #loading: Promise<void> | null = null;
  #requestedAtMs = Number.NEGATIVE_INFINITY;
  #problem = '';

  constructor(options: IssuerOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** @throws IssuerUnavailable */
  async endpoints(): Promise<IssuerEndpoints> {
    return (await this.#current()).endpoints;
  }

  /** The keys that may have signed the token. @throws IssuerUnavailable */
  async keysFor(token: Pick<SignedToken, 'alg' | 'kid'>): Promise<readonly PublishedKey[]> {
    const { keys } = await this.#current();
    const matching = matchingKeys(keys, token);
    if (matching.length > 0 || !this.#mayRequest()) return matching;
    // The issuer may have added the key since.
    await this.#load();
    return matchingKeys(this.#data?.keys ?? [], token);
  }

  async #current(): Promise<IssuerData> {
    const age = () => (this.#data === null ? Number.POSITIVE_INFINITY : this.#now() - this.#data.atMs);
    if (age() >= FRESH_MS && this.#mayRequest()) await this.#load();
    if (this.#data === null || age() >= STALE_MS) throw new IssuerUnavailable(this.#options.issuer, this.#problem);
    return this.#data;
  }

  #mayRequest(): boolean {
    return this.#loading !== null || this.#now() - this.#requestedAtMs >= COOLDOWN_MS;
  }

  #load(): Promise<void> {
    this.#loading ??= this.#request().finally(() => {
      this.#loading = null;
    });
    return this.#loading;
  }

  async #request(): Promise<void> {
    this.#requestedAtMs = this.#now();
    try {
      const endpoints = await this.#discover();
      const body = await this.#json(endpoints.keys);
      const list = isJsonObject(body) && Array.isArray(body.keys) ? body.keys.slice(0, MAX_KEYS) : [];
      const keys = list.flatMap((jwk) => (isJsonObject(jwk) ? (publishedKey(jwk) ?? []) : []));
      if (keys.length === 0) throw new Error(`${endpoints.keys} has no usable key`);
      this.#data = { endpoints, keys, atMs: this.#now() };
      this.#problem = '';
    } catch (error) {
      this.#problem = whyOf(error);
      this.#options.onProblem(this.#problem);
    }
  }

  async #discover(): Promise<IssuerEndpoints> {
    const { issuer } = this.#options;
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
    const config = await this.#json(url);
    if (!isJsonObject(config)) throw new Error(`${url} is not an OpenID provider configuration`);
    if (config.issuer !== issuer) throw new Error(`${url} names a different issuer; set oidc.issuer to that issuer`);
    const methods = config.token_endpoint_auth_methods_supported;
    const inBody = Array.isArray(methods) && !methods.includes('client_secret_basic');
    return {
      keys: secureUrl(config, 'jwks_uri'),
      authorization: secureUrl(config, 'authorization_endpoint'),
      token: secureUrl(config, 'token_endpoint'),
      secretIn: inBody ? 'body' : 'header',
      namesItself: config.authorization_response_iss_parameter_supported === true,
    };
  }

  async #json(url: string): Promise<JsonValue> {
    const response = await this.#options.fetch(url, { headers: { accept: 'application/json' } });
    if (response.status !== 200) throw new Error(`${url} returned status ${response.status}`);
    return parseJson(await response.text()) ?? null;
  }
}

function secureUrl(description: JsonObject, field: string): string {
  const text = description[field];
  const url = typeof text === 'string' ? URL.parse(text) : null;
  if (url !== null && isSecureUrl(url)) return url.href;
  throw new Error(`its ${field} is not an https URL`);
}

/** With the cause of a connection error: the egress rules, or the network. */
function whyOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? `: ${errorText(error.cause)}` : '';
  return `${errorText(error)}${cause}`;
}
