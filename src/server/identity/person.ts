import type { TokenRecord } from '../records/token-record.ts';

type Creation = Pick<TokenRecord, 'created_by' | 'person'>;

/** Creators that stand for the installation and not for a user: the bootstrap token, and any caller without authentication. */
export const isInstallation = (creator: string) => creator === 'bootstrap-admin' || creator === 'anybody';

/**
 * The person behind a name. A token that a user made belongs to that user, through any number of tokens in between. A
 * token of `bootstrap-admin` belongs to the user it is named after; an OIDC user is its own person.
 */
export function personOf(name: string, find: (name: string) => Creation | undefined): string {
  const seen = new Set<string>();
  for (let current = name; ; ) {
    const token = find(current);
    if (token === undefined || seen.has(current)) return current;
    if (token.person != null) return token.person;
    if (isInstallation(token.created_by)) return current;
    seen.add(current);
    current = token.created_by;
  }
}

/** The person whom a new token belongs to: stored with it, because the tokens in between may be revoked. */
export function personOfNew(name: string, creator: string, find: (name: string) => Creation | undefined): string {
  return personOf(name, (wanted) => (wanted === name ? { created_by: creator } : find(wanted)));
}
