import { errorCode } from '../../base/errors.ts';
import { writePrivateFile } from '../../base/private-file.ts';
import type { TokenRecord } from '../../server/records/token.ts';
import { spearExitCodes, UsageError } from '../exit-codes.ts';
import { age, durationOf, table } from '../formatting.ts';
import { type JsonFlag, type SpearCommand, type SpearContext, TOKENS_PATH } from '../spear/command.ts';

/** A duration flag in milliseconds. @throws UsageError */
function durationMs(flag: string, given: string): number {
  const ms = durationOf(given);
  if (ms === null) throw new UsageError(`--${flag}: expected a time like 90d, 12h, 30m or 0s, found "${given}"`);
  return ms;
}

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

interface OutFlags extends JsonFlag {
  readonly out: string | undefined;
}

interface CreateFlags extends OutFlags {
  readonly role: readonly string[];
  readonly namespace: string | undefined;
  readonly description: string | undefined;
  readonly journals: boolean;
  readonly expires: string | undefined;
}

/** Only the token goes to stdout, so that it can be redirected to a file. */
export const createToken: SpearCommand<CreateFlags> = async (context) => {
  const { flags, args } = context;
  const [name = ''] = args;
  const wish = {
    name,
    roles: flags.role,
    ...(flags.namespace === undefined ? {} : { namespace: flags.namespace }),
    ...(flags.description === undefined ? {} : { description: flags.description }),
    ...(flags.journals ? { read_journals: true } : {}),
    ...(flags.expires === undefined ? {} : { expires_at_ms: Date.now() + durationMs('expires', flags.expires) }),
  };
  return handOut(context, TOKENS_PATH, wish, `created token ${name}; it is not shown again`);
};

export const rotateToken: SpearCommand<OutFlags & { readonly overlap: string | undefined }> = async (context) => {
  const { flags, args } = context;
  const [name = ''] = args;
  const wish = flags.overlap === undefined ? {} : { overlap_ms: durationMs('overlap', flags.overlap) };
  const until =
    wish.overlap_ms === 0 ? 'the old one is no longer valid' : `the old one stays valid for ${flags.overlap ?? '24h'}`;
  return handOut(context, `${tokenPath(name)}/rotate`, wish, `rotated token ${name}; it is not shown again; ${until}`);
};

export const revokeToken: SpearCommand = async ({ flags, args: [name = ''], client, print }) => {
  const { value } = await client.request('DELETE', tokenPath(name));
  print(flags.json ? `${JSON.stringify({ revoked: name, ...(value as object) })}\n` : `${name} revoked\n`);
  return spearExitCodes.ok;
};

async function handOut(context: SpearContext<OutFlags>, path: string, wish: object, notice: string) {
  const { flags, client, print, say } = context;
  const { value } = await client.request('POST', path, {
    body: JSON.stringify(wish),
    contentType: 'application/json',
  });
  const { token } = value as { token: string };
  const unwritten = flags.out === undefined ? null : writeOut(flags.out, token);
  const shown = flags.out === undefined || unwritten !== null ? value : { ...(value as object), token: undefined };
  if (flags.json) print(`${JSON.stringify(shown)}\n`);
  else {
    if (shown === value) print(`${token}\n`);
    say(notice);
  }
  if (unwritten === null) return spearExitCodes.ok;
  say(unwritten);
  return spearExitCodes.failed;
}

/** Null: written. Otherwise the problem: the token exists and cannot be read again, so it goes to stdout instead. */
function writeOut(path: string, token: string): string | null {
  try {
    writePrivateFile(path, `${token}\n`);
    return null;
  } catch (error) {
    return `--out ${path}: cannot be written (${errorCode(error) ?? String(error)}); the token is on stdout instead`;
  }
}

function tokenPath(name: string): string {
  return `${TOKENS_PATH}/${encodeURIComponent(name)}`;
}
