/**
 * JWTs of an OIDC issuer: parses a token and verifies it with jose.
 *
 * - A key verifies one algorithm only, which follows from its type. A token never chooses it, and its own `jwk`, `jku`
 *   and `x5c` headers are ignored. Only public-key algorithms are accepted: with a shared secret, every verifier could
 *   issue tokens.
 * - jose checks the signature, `iss`, `aud`, `exp` and `nbf`. This file checks what jose leaves to its caller: several
 *   token types, `crit`, logout tokens, and an `iat` in the future.
 * - jose is loaded with the first token, so a process without OIDC does not pay for it.
 */
import { createPublicKey, type JsonWebKeyInput, type KeyObject } from 'node:crypto';
import { isJsonObject, type JsonObject, parseJson } from '../../../base/json.ts';

/** A parsed token; its signature and claims are not verified. */
export interface SignedToken {
  readonly text: string;
  readonly alg: Algorithm;
  /** Id of its key; null: not named. */
  readonly kid: string | null;
  readonly claims: JsonObject;
}

const algorithms = ['RS256', 'ES256', 'EdDSA'] as const;
type Algorithm = (typeof algorithms)[number];

/** Maximum difference between the clocks of the issuer and this machine. */
export const CLOCK_SKEW_S = 60;
const MAX_TOKEN_CHARS = 16 * 1024;
const MIN_RSA_BITS = 2_048;
const compact = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+$/;
/** Tokens for other purposes have other types. */
const bearerTypes: ReadonlySet<string> = new Set(['jwt', 'at+jwt', 'application/at+jwt']);

/** Whether a text has the form of a JWT. */
export function looksSigned(text: string): boolean {
  return text.length <= MAX_TOKEN_CHARS && text.startsWith('eyJ') && compact.test(text);
}

/** Null: no key could make this text a valid token. */
export function readSignedToken(text: string): SignedToken | null {
  const [, first = '', second = ''] = looksSigned(text) ? (compact.exec(text) ?? []) : [];
  const [header, claims] = [jsonOf(first), jsonOf(second)];
  if (header === null || claims === null) return null;
  const alg = algorithms.find((known) => known === header.alg);
  if (alg === undefined || header.crit !== undefined || !isBearer(header, claims)) return null;
  return { text, alg, kid: typeof header.kid === 'string' ? header.kid : null, claims };
}

/** A token with `events` is a logout token. */
function isBearer({ typ }: JsonObject, { events }: JsonObject): boolean {
  const known = typ === undefined || (typeof typ === 'string' && bearerTypes.has(typ.toLowerCase()));
  return known && events === undefined;
}

function jsonOf(part: string): JsonObject | null {
  const value = parseJson(Buffer.from(part, 'base64url').toString('utf8'));
  return isJsonObject(value) ? value : null;
}

/** A public key of an issuer. */
export interface PublishedKey {
  readonly kid: string | null;
  readonly alg: Algorithm;
  readonly key: KeyObject;
}

/** Null: the key is invalid, too short, or not for signatures of a supported algorithm. */
export function publishedKey(jwk: JsonObject): PublishedKey | null {
  if (jwk.use !== undefined && jwk.use !== 'sig') return null;
  try {
    const key = createPublicKey({ key: jwk, format: 'jwk' } as JsonWebKeyInput);
    const alg = algorithmOf(key);
    if (alg === null || (jwk.alg !== undefined && jwk.alg !== alg)) return null;
    return { kid: typeof jwk.kid === 'string' ? jwk.kid : null, alg, key };
  } catch {
    return null;
  }
}

function algorithmOf({ asymmetricKeyType: type, asymmetricKeyDetails: details }: KeyObject): Algorithm | null {
  if (type === 'rsa') return (details?.modulusLength ?? 0) >= MIN_RSA_BITS ? 'RS256' : null;
  if (type === 'ec') return details?.namedCurve === 'prime256v1' ? 'ES256' : null;
  return type === 'ed25519' ? 'EdDSA' : null;
}

/** The public members of a key. */
export const asJwk = ({ kid, key }: PublishedKey): JsonObject => ({
  ...(key.export({ format: 'jwk' }) as JsonObject),
  ...(kid === null ? {} : { kid }),
});

export const isAlgorithm = (name: string): name is Algorithm => algorithms.some((known) => known === name);

/** The keys that may have signed a token. */
export function matchingKeys(
  keys: readonly PublishedKey[],
  { alg, kid }: Pick<SignedToken, 'alg' | 'kid'>,
): readonly PublishedKey[] {
  return keys.filter((key) => key.alg === alg && (kid === null || key.kid === kid));
}

/** The claims of a token that one of the keys signed, if they are valid now. `expired`: valid except for `exp`. */
export async function verifiedClaims(
  token: SignedToken,
  keys: readonly PublishedKey[],
  issuer: string,
  audiences: readonly string[],
): Promise<JsonObject | 'unknown' | 'expired'> {
  const { errors, jwtVerify } = await import('jose');
  for (const { alg, key } of matchingKeys(keys, token)) {
    try {
      const { payload } = await jwtVerify<JsonObject>(token.text, key, {
        algorithms: [alg],
        issuer,
        audience: [...audiences],
        requiredClaims: ['exp'],
        clockTolerance: CLOCK_SKEW_S,
      });
      return (payload.iat ?? 0) > Date.now() / 1_000 + CLOCK_SKEW_S ? 'unknown' : payload;
    } catch (error) {
      if (error instanceof errors.JWTExpired) return 'expired';
    }
  }
  return 'unknown';
}
