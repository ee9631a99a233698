import { errorText } from '../../../base/error-text.ts';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../../base/json.ts';
import { isLoopbackHost } from '../../../config/address.ts';
import { type PublishedKey, publishedKey, type SignedToken } from './signed-token.ts';

/** What an issuer says of itself. */
export interface IssuerEndpoints {
  readonly keys: string;
  readonly authorization: string;
  readonly token: string;
  /** How a client with a secret proves itself. */
  readonly secretIn: 'header' | 'body';
  /** Whether its answers to browsers name it (RFC 9207): then one that does not is not its own. */
  readonly namesItself: boolean;
}

/** The issuer cannot be asked, or says what cannot be used. */
export class IssuerUnavailable extends Error {
  constructor(issuer: string, why: string) {
    super(`the issuer ${issuer} is unavailable: ${why}`);
    this.name = 'IssuerUnavailable';
  }
}

export type IssuerFetch = (url: string, init?: RequestInit) => Promise<Response>;

export interface IssuerOptions {
  readonly issuer: string;
  readonly fetch: IssuerFetch;
  /** Told each time that it could not be asked. */
  readonly onProblem: (problem: string) => void;
  readonly now?: () => number;
}

/** Keys are looked at again after this time, so that one that was taken back is not taken for long. */
const FRESH_MS = 10 * 60_000;
/** An issuer that is away for longer is not believed by what it said before. */
const KEPT_MS = 60 * 60_000;
/** Between two tries: tokens that name keys that do not exist, or an issuer that is down, must not make us ask all the time. */
const ASK_AGAIN_MS = 10_000;
const MAX_KEYS = 64;

interface Known {
  readonly endpoints: IssuerEndpoints;
  readonly keys: readonly PublishedKey[];
  readonly atMs: number;
}

/** An OpenID Connect issuer: its endpoints and its keys, asked for when they are needed and remembered. */
export class Issuer {
  readonly #options: IssuerOptions;
  readonly #now: () => number;
  #known: Known | null = null;
  #asking: Promise<void> | null = null;
  #askedAtMs = Number.NEGATIVE_INFINITY;
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
    const fitting = fittingKeys(keys, token);
    if (fitting.length > 0 || !this.#mayAsk()) return fitting;
    // Issuers change their keys: one that is not known may be new.
    await this.#ask();
    return fittingKeys(this.#known?.keys ?? [], token);
  }

  async #current(): Promise<Known> {
    const age = () => (this.#known === null ? Number.POSITIVE_INFINITY : this.#now() - this.#known.atMs);
    if (age() >= FRESH_MS && this.#mayAsk()) await this.#ask();
    if (this.#known === null || age() >= KEPT_MS) throw new IssuerUnavailable(this.#options.issuer, this.#problem);
    return this.#known;
  }

  #mayAsk(): boolean {
    return this.#asking !== null || this.#now() - this.#askedAtMs >= ASK_AGAIN_MS;
  }

  /** All who need it at the same time wait for one answer. */
  #ask(): Promise<void> {
    this.#asking ??= this.#learn().finally(() => {
      this.#asking = null;
    });
    return this.#asking;
  }

  async #learn(): Promise<void> {
    this.#askedAtMs = this.#now();
    try {
      const endpoints = await this.#discover();
      const answer = await this.#json(endpoints.keys);
      const list = isJsonObject(answer) && Array.isArray(answer.keys) ? answer.keys.slice(0, MAX_KEYS) : [];
      const keys = list.flatMap((jwk) => (isJsonObject(jwk) ? (publishedKey(jwk) ?? []) : []));
      if (keys.length === 0) throw new Error(`${endpoints.keys} has no usable key`);
      this.#known = { endpoints, keys, atMs: this.#now() };
      this.#problem = '';
    } catch (error) {
      this.#problem = whyOf(error);
      this.#options.onProblem(this.#problem);
    }
  }

  async #discover(): Promise<IssuerEndpoints> {
    const { issuer } = this.#options;
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
    const answer = await this.#json(url);
    if (!isJsonObject(answer)) throw new Error(`${url} is not an OpenID provider configuration`);
    if (answer.issuer !== issuer) throw new Error(`${url} names a different issuer; set oidc.issuer to that issuer`);
    const methods = answer.token_endpoint_auth_methods_supported;
    const inBody = Array.isArray(methods) && !methods.includes('client_secret_basic');
    return {
      keys: secureUrl(answer, 'jwks_uri'),
      authorization: secureUrl(answer, 'authorization_endpoint'),
      token: secureUrl(answer, 'token_endpoint'),
      secretIn: inBody ? 'body' : 'header',
      namesItself: answer.authorization_response_iss_parameter_supported === true,
    };
  }

  async #json(url: string): Promise<JsonValue> {
    const response = await this.#options.fetch(url, { headers: { accept: 'application/json' } });
    if (response.status !== 200) throw new Error(`${url} returned status ${response.status}`);
    return parseJson(await response.text()) ?? null;
  }
}

function fittingKeys(
  keys: readonly PublishedKey[],
  { alg, kid }: Pick<SignedToken, 'alg' | 'kid'>,
): readonly PublishedKey[] {
  const sameKind = keys.filter((key) => key.alg === alg);
  return kid === null ? sameKind : sameKind.filter((key) => key.kid === kid);
}

function secureUrl(description: JsonObject, field: string): string {
  const text = description[field];
  const url = typeof text === 'string' ? URL.parse(text) : null;
  const isLocal = url?.protocol === 'http:' && isLoopbackHost(url.hostname.replace(/^\[|\]$/g, ''));
  if (url !== null && (url.protocol === 'https:' || isLocal)) return url.href;
  throw new Error(`its ${field} is not an https URL`);
}

/** The cause says why a connection was not made: by our rules, or by the network. */
function whyOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? `: ${errorText(error.cause)}` : '';
  return `${errorText(error)}${cause}`;
}
