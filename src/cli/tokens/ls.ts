import type { TokenRecord } from '../../protocol/token-record.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { type SpearCommand, TOKENS_PATH } from '../spear/command.ts';
import { age, table } from '../table.ts';

/** A token in responses of the admin API. */
export interface ShownToken extends Omit<TokenRecord, 'secrets'> {
  readonly secrets: readonly { readonly created_at_ms: number; readonly expires_at_ms: number | null }[];
  /** Null: never. */
  readonly last_used_at_ms: number | null;
}

export const listTokens: SpearCommand = async ({ flags, client, print }) => {
  const { value } = await client.request('GET', TOKENS_PATH);
  if (flags.json) print(`${JSON.stringify(value)}\n`);
  else {
    const { tokens } = value as unknown as { tokens: readonly ShownToken[] };
    const now = Date.now();
    const rows = tokens.map((token) => [
      token.name,
      token.roles.join(',') + (token.read_journals ? ' +journals' : ''),
      token.namespace,
      token.last_used_at_ms === null ? 'never' : `${since(now, token.last_used_at_ms)} ago`,
      `${since(now, token.secrets[0]?.created_at_ms ?? token.created_at_ms)} ago`,
      expiryText(token, now),
      token.created_by,
      token.description,
    ]);
    print(table(['NAME', 'ROLES', 'NAMESPACE', 'LAST USE', 'RENEWED', 'EXPIRES', 'CREATED BY', 'DESCRIPTION'], rows));
  }
  return spearExitCodes.ok;
};

const since = (now: number, then: number) => age(Math.max(0, now - then));

/** Also shows that a token from before a rotation is still valid, which is easily forgotten. */
function expiryText({ expires_at_ms, secrets }: ShownToken, now: number): string {
  const until = (atMs: number) => (atMs <= now ? 'expired' : `in ${age(atMs - now)}`);
  const older = secrets
    .slice(1)
    .flatMap((secret) => ((secret.expires_at_ms ?? 0) > now ? [secret.expires_at_ms ?? 0] : []));
  const end = expires_at_ms === null ? '-' : until(expires_at_ms);
  return older.length === 0 ? end : `${end} (old token ${until(Math.max(...older))})`;
}
