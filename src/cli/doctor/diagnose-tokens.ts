import { bad, type Finding, ok } from './finding.ts';

/** A token in a response of the registry's admin API. */
export interface ListedToken {
  readonly name: string;
  readonly namespace: string;
  readonly created_by: string;
  /** Approver rule that reserves the name, where an admin of one namespace made the token. Absent: an older registry. */
  readonly violates?: string | null;
}

/** Tokens that admins of one namespace made under names which an approver rule reserves: each is a vote that they hold. */
export function diagnoseTokens(tokens: readonly ListedToken[]): Finding {
  const children = tokens.flatMap(({ name, namespace, created_by, violates }) => {
    if (violates == null) return [];
    const text = `token "${name}" of the namespace "${namespace}", created by "${created_by}", has a name that the approver rule ${JSON.stringify(violates)} reserves`;
    const fix = `revoke it (spear tokens revoke ${name}), or create it again as an admin of all namespaces`;
    return [bad('token', text, { cause: 'reserved_name', fix })];
  });
  return ok('tokens', `${tokens.length} ${tokens.length === 1 ? 'token' : 'tokens'} of the registry`, children);
}
