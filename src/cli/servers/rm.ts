import { spearExitCodes } from '../exit-codes.ts';
import { PROFILES_PATH, SERVERS_PATH, type SpearCommand } from '../spear/command.ts';
import { SmsRequestError } from '../spear/sms-client.ts';
import { UsageError } from '../usage-error.ts';

export const removeServers = removal(SERVERS_PATH, 'server_id', 'ID');
export const removeProfiles = removal(PROFILES_PATH, 'name', 'NAME');

/** Removes each; one that is not there does not keep the others. */
function removal(path: string, idField: string, word: string): SpearCommand {
  return async ({ flags, client, print, say }) => {
    if (flags.args.length === 0) throw new UsageError(`usage: spear ${flags.noun} rm ${word}...`);
    const removed: Record<string, unknown>[] = [];
    let exitCode: number = spearExitCodes.ok;
    for (const id of flags.args) {
      try {
        const { value } = await client.request('DELETE', `${path}/${encodeURIComponent(id)}`);
        removed.push({ [idField]: id, revision: (value as { revision: unknown }).revision });
        if (!flags.json) print(`${id} removed\n`);
      } catch (error) {
        if (!(error instanceof SmsRequestError) || error.exitCode !== spearExitCodes.failed) throw error;
        say(`${id}: ${error.message}`);
        exitCode = error.exitCode;
      }
    }
    if (flags.json) print(`${JSON.stringify({ removed })}\n`);
    return exitCode;
  };
}
