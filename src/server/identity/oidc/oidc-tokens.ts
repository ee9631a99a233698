/** Identities of JWTs that an OIDC issuer signed, for the registry ({@link OidcTokens}) and for nodes. */
import type { JsonObject, JsonValue } from '../../../base/json.ts';
import { textProblem } from '../../../base/text.ts';
import type { OidcConfig } from '../../../config/registry/oidc.ts';
import {
  ALL_NAMESPACES,
  type ClaimsReading,
  type Identity,
  type IssuerDescription,
  isNamespace,
  type Role,
} from '../../records/permissions.ts';
import type { AuthFailure, TokenSource } from '../access.ts';
import { digestOf } from '../token-text.ts';
import { type Issuer, IssuerUnavailable } from './issuer.ts';
import {
  CLOCK_SKEW_S,
  looksSigned,
  publishedKey,
  readSignedToken,
  type SignedToken,
  verifiedClaims,
} from './signed-token.ts';

/** Cache of verified tokens: a verification takes longer than the rest of a request. */
const MAX_CACHED = 1_000;
const CACHE_MS = 60_000;

const MAX_NAME_CHARS = 128;
/** Groups of one user; more are ignored. */
const MAX_VALUES = 1_000;

export class OidcTokens implements TokenSource {
  readonly #config: OidcConfig;
  readonly #issuer: Issuer;
  readonly #verified = new Map<string, { readonly identity: Identity; readonly untilMs: number }>();

  constructor(config: OidcConfig, issuer: Issuer) {
    this.#config = config;
    this.#issuer = issuer;
  }

  async identify(token: string): Promise<Identity | AuthFailure | null> {
    if (!looksSigned(token)) return null;
    const digest = digestOf(token).toString('base64');
    const cached = this.#verified.get(digest);
    if (cached !== undefined && cached.untilMs > Date.now()) return cached.identity;
    this.#verified.delete(digest);
    const claims = await this.claimsOf(token, this.#config.audiences);
    if (typeof claims === 'string') return claims;
    const identity = identityOfClaims(claims, this.#config);
    if (identity === null) return 'unknown';
    const untilMs = Math.min(Date.now() + CACHE_MS, identity.expiresAtMs ?? 0);
    if (this.#verified.size >= MAX_CACHED) this.#verified.delete(this.#verified.keys().next().value ?? '');
    this.#verified.set(digest, { identity, untilMs });
    return identity;
  }

  /** The claims of a token of the issuer, verified for one of the audiences. */
  async claimsOf(text: string, audiences: readonly string[]): Promise<JsonObject | AuthFailure> {
    const token = readSignedToken(text);
    const { issuer } = this.#config;
    // Checked first: a token of another issuer must not cause a request to this one.
    if (token === null || token.claims.iss !== issuer) return 'unknown';
    try {
      return await verifiedClaims(token, await this.#issuer.keysFor(token), issuer, audiences);
    } catch (error) {
      return error instanceof IssuerUnavailable ? 'unavailable' : 'unknown';
    }
  }
}

/** The identity of a token on a node, which has the issuer's keys from the registry. Null: invalid, or not allowed here. */
export async function identityOfToken(token: SignedToken, description: IssuerDescription): Promise<Identity | null> {
  const { issuer, audiences, nodeNamespace } = description;
  const keys = description.keys.flatMap((jwk) => publishedKey(jwk) ?? []);
  const claims = await verifiedClaims(token, keys, issuer, audiences);
  const identity = typeof claims === 'string' ? null : identityOfClaims(claims, description);
  const isAllowed =
    [ALL_NAMESPACES, identity?.namespace].includes(nodeNamespace) || identity?.namespace === ALL_NAMESPACES;
  return isAllowed ? identity : null;
}

/** Null: the claims have no valid name or namespace. */
export function identityOfClaims(claims: JsonObject, config: ClaimsReading): Identity | null {
  const name = claims[config.nameClaim];
  const isVerified = config.nameClaim !== 'email' || claims.email_verified !== false;
  if (typeof name !== 'string' || !isVerified || textProblem(name, MAX_NAME_CHARS) !== null) return null;
  const namespace = config.namespace ?? claimAt(claims, config.namespaceClaim ?? '');
  if (typeof namespace !== 'string' || !(namespace === ALL_NAMESPACES || isNamespace(namespace))) return null;
  const groups = valuesOf(claimAt(claims, config.rolesClaim));
  return {
    // No registry token can have such a name.
    name: `oidc:${name}`,
    roles: [...new Set(groups.flatMap((group): readonly Role[] => config.roles.get(group) ?? []))],
    namespace,
    mayReadJournals: groups.some((group) => config.journalValues.includes(group)),
    expiresAtMs: (Number(claims.exp) + CLOCK_SKEW_S) * 1_000,
  };
}

/** A claim by its name; if there is none of that name, by a path of names with dots. */
function claimAt(claims: JsonObject, path: string): JsonValue | undefined {
  if (Object.hasOwn(claims, path)) return claims[path];
  let found: JsonValue | undefined = claims;
  for (const part of path.split('.')) {
    if (typeof found !== 'object' || found === null || Array.isArray(found) || !Object.hasOwn(found, part))
      return undefined;
    found = found[part];
  }
  return found;
}

function valuesOf(claim: JsonValue | undefined): readonly string[] {
  const values = Array.isArray(claim) ? claim.slice(0, MAX_VALUES) : [claim];
  return values.filter((value) => typeof value === 'string');
}
