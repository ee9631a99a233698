import type { TokenRecord } from '../records/token-record.ts';

/** A token as others may see it: without what its text could be checked against. */
export function tokenJson({ secrets, ...token }: TokenRecord) {
  return { ...token, secrets: secrets.map(({ digest: _, ...secret }) => secret) };
}
