import type { JsonObject, JsonValue } from '../../../base/json.ts';
import { textProblem } from '../../../base/text-problem.ts';
import { ALL_NAMESPACES, type ClaimsReading, isNamespace, type Role } from '../../records/permissions.ts';
import type { Identity } from '../identity.ts';

/** How far the clocks of an issuer and of this machine may be apart. */
const CLOCK_SKEW_S = 60;
const MAX_NAME_CHARS = 128;
/** Groups of one person; more are a mistake, or an attack. */
const MAX_VALUES = 1_000;
const SECOND_MS = 1_000;

/** Why a token whose signature is good is not taken; `expired` is a reason of its own. */
export type ClaimsRefusal = 'expired' | 'refused';

export function checkTimes({ exp, nbf, iat }: JsonObject, nowMs: number): ClaimsRefusal | null {
  const now = nowMs / SECOND_MS;
  if (typeof exp !== 'number') return 'refused';
  for (const since of [nbf, iat]) {
    if (since !== undefined && (typeof since !== 'number' || since > now + CLOCK_SKEW_S)) return 'refused';
  }
  return exp + CLOCK_SKEW_S <= now ? 'expired' : null;
}

export function isFor({ aud }: JsonObject, audiences: readonly string[]): boolean {
  return valuesOf(aud).some((each) => audiences.includes(each));
}

/** Null: the claims do not say who somebody is, or where they belong. */
export function identityOfClaims(claims: JsonObject, config: ClaimsReading): Identity | null {
  const name = claims[config.nameClaim];
  const isVerified = config.nameClaim !== 'email' || claims.email_verified !== false;
  if (typeof name !== 'string' || !isVerified || textProblem(name, MAX_NAME_CHARS) !== null) return null;
  const namespace = config.namespace ?? claimAt(claims, config.namespaceClaim ?? '');
  if (typeof namespace !== 'string' || !(namespace === ALL_NAMESPACES || isNamespace(namespace))) return null;
  const groups = valuesOf(claimAt(claims, config.rolesClaim));
  return {
    // No token has such a name.
    name: `oidc:${name}`,
    roles: [...new Set(groups.flatMap((group): readonly Role[] => config.roles.get(group) ?? []))],
    namespace,
    mayReadJournals: groups.some((group) => config.journalValues.includes(group)),
    expiresAtMs: (Number(claims.exp) + CLOCK_SKEW_S) * SECOND_MS,
  };
}

/** A claim by its name, or by a path of names with dots where no claim has the whole as its name. */
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
