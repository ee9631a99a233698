import { RequestError } from '../api-client.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { PROFILES_PATH, SERVERS_PATH, type SpearCommand } from '../spear/command.ts';

export const removeServers = removal(SERVERS_PATH, 'server_id');
export const removeProfiles = removal(PROFILES_PATH, 'name');

/** Removes each; a missing one is reported and does not stop the others. */
function removal(path: string, idField: string): SpearCommand {
  return async ({ flags, args, client, print, say }) => {
    const removed: Record<string, unknown>[] = [];
    let exitCode: number = spearExitCodes.ok;
    for (const id of args) {
      try {
        const { value } = await client.request('DELETE', `${path}/${encodeURIComponent(id)}`);
        removed.push({ [idField]: id, revision: (value as { revision: unknown }).revision });
        if (!flags.json) print(`${id} removed\n`);
      } catch (error) {
        if (!(error instanceof RequestError) || error.exitCode !== spearExitCodes.failed) throw error;
        say(`${id}: ${error.message}`);
        exitCode = error.exitCode;
      }
    }
    if (flags.json) print(`${JSON.stringify({ removed })}\n`);
    return exitCode;
  };
}
