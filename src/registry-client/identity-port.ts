import type { Identity, IssuerDescription } from '../server/records/permissions.ts';

/** A registry that can say who somebody is. */
export interface IdentityPort {
  /** Whose token has this sha256, in hex: the token itself goes nowhere. Null: nobody's. Rejects where nobody answers. */
  identify(sha256: string, signal: AbortSignal): Promise<Identity | null>;
  /** How to know whose a token of its issuer is that was signed so. Null: it has no issuer. Rejects as `identify` does. */
  issuer(
    signed: { readonly alg: string; readonly kid: string | null },
    signal: AbortSignal,
  ): Promise<IssuerDescription | null>;
}
