import { createPublicKey, type JsonWebKeyInput, type KeyObject, verify } from 'node:crypto';
import { isJsonObject, type JsonObject, parseJson } from '../../../base/json.ts';

/** A token of three parts whose signature nobody has looked at yet. */
export interface SignedToken {
  readonly alg: Algorithm;
  /** Null: it does not say which key. */
  readonly kid: string | null;
  readonly claims: JsonObject;
  /** What was signed, and the signature. */
  readonly signed: Buffer;
  readonly signature: Buffer;
}

/** Those of public keys only: with a secret one, whoever can check a token can make one. */
const algorithms = ['RS256', 'ES256', 'EdDSA'] as const;
export type Algorithm = (typeof algorithms)[number];

const MAX_TOKEN_CHARS = 16 * 1024;
const MIN_RSA_BITS = 2_048;
const compact = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/;
/** Tokens of other purposes have types of their own. */
const bearerTypes: ReadonlySet<string> = new Set(['jwt', 'at+jwt', 'application/at+jwt']);

/** Whether a text is one at all; nothing is said of its worth. */
export function looksSigned(text: string): boolean {
  return text.length <= MAX_TOKEN_CHARS && text.startsWith('eyJ') && compact.test(text);
}

/** Null: it is not a token that could be good. */
export function readSignedToken(text: string): SignedToken | null {
  const [, first = '', second = '', third = ''] = looksSigned(text) ? (compact.exec(text) ?? []) : [];
  const [header, claims] = [jsonOf(first), jsonOf(second)];
  if (header === null || claims === null) return null;
  const alg = algorithms.find((known) => known === header.alg);
  // What must be understood, and is not: the sender says so by "crit".
  if (alg === undefined || header.crit !== undefined || !isBearer(header, claims)) return null;
  return {
    alg,
    kid: typeof header.kid === 'string' ? header.kid : null,
    claims,
    signed: Buffer.from(`${first}.${second}`),
    signature: Buffer.from(third, 'base64url'),
  };
}

function isBearer({ typ }: JsonObject, { events }: JsonObject): boolean {
  const known = typ === undefined || (typeof typ === 'string' && bearerTypes.has(typ.toLowerCase()));
  return known && events === undefined;
}

function jsonOf(part: string): JsonObject | null {
  const value = parseJson(Buffer.from(part, 'base64url').toString('utf8'));
  return isJsonObject(value) ? value : null;
}

/** A key that its owner publishes, for one algorithm alone. */
export interface PublishedKey {
  readonly kid: string | null;
  readonly alg: Algorithm;
  readonly key: KeyObject;
}

/** Null: it is not for signatures that are taken here, or not a good one. */
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

/** What a key is for follows from what it is, never from what a token says. */
function algorithmOf({ asymmetricKeyType: type, asymmetricKeyDetails: details }: KeyObject): Algorithm | null {
  if (type === 'rsa') return (details?.modulusLength ?? 0) >= MIN_RSA_BITS ? 'RS256' : null;
  if (type === 'ec') return details?.namedCurve === 'prime256v1' ? 'ES256' : null;
  return type === 'ed25519' ? 'EdDSA' : null;
}

/** As its owner would publish it. */
export const asJwk = ({ kid, key }: PublishedKey): JsonObject => ({
  ...(key.export({ format: 'jwk' }) as JsonObject),
  ...(kid === null ? {} : { kid }),
});

export const isAlgorithm = (name: string): name is Algorithm => algorithms.some((known) => known === name);

export function isSignedBy({ alg, signed, signature }: SignedToken, { alg: keyAlg, key }: PublishedKey): boolean {
  if (alg !== keyAlg) return false;
  if (alg === 'ES256') return verify('sha256', signed, { key, dsaEncoding: 'ieee-p1363' }, signature);
  return verify(alg === 'RS256' ? 'sha256' : null, signed, key, signature);
}
