import { ALL_NAMESPACES, type Identity, type IssuerDescription } from '../../records/permissions.ts';
import { identityOfClaims } from './claims.ts';
import { goodClaims } from './oidc-tokens.ts';
import { publishedKey, type SignedToken } from './signed-token.ts';

/** Whose token it is, as a node sees it that knows the issuer by its registry. Null: nobody's whom it may let in. */
export function identityOfToken(token: SignedToken, description: IssuerDescription): Identity | null {
  const { issuer, audiences, nodeNamespace } = description;
  if (token.claims.iss !== issuer) return null;
  const keys = description.keys.flatMap((jwk) => publishedKey(jwk) ?? []);
  const claims = goodClaims(token, keys, audiences);
  const identity = typeof claims === 'string' ? null : identityOfClaims(claims, description);
  const isOurs =
    [ALL_NAMESPACES, identity?.namespace].includes(nodeNamespace) || identity?.namespace === ALL_NAMESPACES;
  return isOurs ? identity : null;
}
