import type { JsonObject } from '../../base/json.ts';
import { isInheritedName } from '../../base/validation.ts';

/** Roles of users and programs. `node`: a process that runs guests. */
export const roles = ['viewer', 'submitter', 'approver', 'operator', 'admin', 'node'] as const;
export type Role = (typeof roles)[number];

export function isRole(text: string): text is Role {
  return roles.some((role) => role === text);
}

/** An authenticated caller. An identity is immutable: when its credential changes, a new object replaces it. */
export interface Identity {
  /** Unique among valid identities; the name in the audit log. */
  readonly name: string;
  readonly roles: readonly Role[];
  /** The only namespace that the caller may name; `*`: all. */
  readonly namespace: string;
  /** Permission to read journals, which no role includes. */
  readonly mayReadJournals: boolean;
  /** Null: the expiry is unknown. */
  readonly expiresAtMs: number | null;
}

/** Means every namespace. Not a valid namespace name. */
export const ALL_NAMESPACES = '*';

const namespaceShape = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** Letters, digits and dashes: the name becomes part of keys and NATS subjects. */
export function isNamespace(text: string): boolean {
  return namespaceShape.test(text) && !isInheritedName(text);
}

/** How to read the claims of an issuer's tokens. */
export interface ClaimsReading {
  /** The `iss` claim of its tokens. */
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly nameClaim: string;
  readonly rolesClaim: string;
  /** Roles for each value of the roles claim. */
  readonly roles: ReadonlyMap<string, readonly Role[]>;
  /** Values of the roles claim that grant permission to read journals. */
  readonly journalValues: readonly string[];
  /** Exactly one of `namespace` and `namespaceClaim` is null. */
  readonly namespace: string | null;
  readonly namespaceClaim: string | null;
}

/** What a node needs to verify tokens of the registry's issuer. */
export interface IssuerDescription extends ClaimsReading {
  /** Public keys (JWK) that may have signed the token. */
  readonly keys: readonly JsonObject[];
  /** The node accepts callers of this namespace and of all namespaces. */
  readonly nodeNamespace: string;
}
