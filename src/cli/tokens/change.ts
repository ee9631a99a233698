import { errorCode } from '../../base/error-text.ts';
import { writePrivateFile } from '../../base/private-file.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { type JsonFlag, type SpearCommand, type SpearContext, TOKENS_PATH } from '../spear/command.ts';
import { durationMs } from './duration.ts';

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
