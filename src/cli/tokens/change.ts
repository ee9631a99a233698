import { errorCode } from '../../base/error-text.ts';
import { writePrivateFile } from '../../base/private-file.ts';
import { isRole, roles } from '../../protocol/people.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { oneArgument, type SpearCommand, type SpearContext, TOKENS_PATH } from '../spear/command.ts';
import { UsageError } from '../usage-error.ts';
import { durationMs } from './duration.ts';

/** Only the token goes to stdout, so that a file can take it. */
export const createToken: SpearCommand = async (context) => {
  const { flags } = context;
  const name = oneArgument(flags, 'NAME --role ROLE...');
  if (flags.roles.length === 0) throw new UsageError(`--role: which of ${roles.join(', ')}? it may be repeated`);
  const unknown = flags.roles.find((role) => !isRole(role));
  if (unknown !== undefined) throw new UsageError(`--role: there is no "${unknown}"; there are ${roles.join(', ')}`);
  const wish = {
    name,
    roles: flags.roles,
    ...(flags.namespace === undefined ? {} : { namespace: flags.namespace }),
    ...(flags.description === undefined ? {} : { description: flags.description }),
    ...(flags.journals ? { read_journals: true } : {}),
    ...(flags.expires === undefined ? {} : { expires_at_ms: Date.now() + durationMs('expires', flags.expires) }),
  };
  return handOut(context, TOKENS_PATH, wish, `${name} is made; this is the only time that its text can be had`);
};

export const rotateToken: SpearCommand = async (context) => {
  const { flags } = context;
  const name = oneArgument(flags, 'NAME [--overlap TIME]');
  const wish = flags.overlap === undefined ? {} : { overlap_ms: durationMs('overlap', flags.overlap) };
  const until = wish.overlap_ms === 0 ? 'the old one is no longer valid' : 'the old one is valid for a while yet';
  return handOut(context, `${tokenPath(name)}/rotate`, wish, `${name} has a new text, to be had this once; ${until}`);
};

export const revokeToken: SpearCommand = async ({ flags, client, print }) => {
  const name = oneArgument(flags, 'NAME');
  const { value } = await client.request('DELETE', tokenPath(name));
  print(flags.json ? `${JSON.stringify({ revoked: name, ...(value as object) })}\n` : `${name} revoked\n`);
  return spearExitCodes.ok;
};

async function handOut({ flags, client, print, say }: SpearContext, path: string, wish: object, said: string) {
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
    say(said);
  }
  if (unwritten === null) return spearExitCodes.ok;
  say(unwritten);
  return spearExitCodes.failed;
}

/** Null: it is there. The token is made by now and cannot be had again, so whoever waits for it gets it on stdout then. */
function writeOut(path: string, token: string): string | null {
  try {
    writePrivateFile(path, `${token}\n`);
    return null;
  } catch (error) {
    return `--out: ${path} cannot be written (${errorCode(error) ?? String(error)}); the token is on stdout instead`;
  }
}

function tokenPath(name: string): string {
  return `${TOKENS_PATH}/${encodeURIComponent(name)}`;
}
