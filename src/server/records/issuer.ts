import type { JsonObject } from '../../base/json.ts';
import type { Role } from './permissions.ts';

/** How the claims of an issuer's tokens are read. */
export interface ClaimsReading {
  /** As its tokens write it. */
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly nameClaim: string;
  readonly rolesClaim: string;
  /** What each value of the claim stands for. */
  readonly roles: ReadonlyMap<string, readonly Role[]>;
  /** Values of the same claim that let somebody read journals. */
  readonly journalValues: readonly string[];
  /** One of the two is null. */
  readonly namespace: string | null;
  readonly namespaceClaim: string | null;
}

/** What a node needs to know whose a token of the registry's issuer is. */
export interface IssuerDescription extends ClaimsReading {
  /** Public ones (JWK) that may have signed it. */
  readonly keys: readonly JsonObject[];
  /** Whom the node may let in: those of this namespace and of all. */
  readonly nodeNamespace: string;
}
