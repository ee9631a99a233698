import { spearExitCodes } from '../exit-codes.ts';
import { type SpearCommand, serverPath } from '../spear/command.ts';
import { SmsRequestError } from '../spear/sms-client.ts';
import { UsageError } from '../usage-error.ts';

/** Removes each; one that is not there does not keep the others. */
export const removeServers: SpearCommand = async ({ flags, client, print, say }) => {
  if (flags.args.length === 0) throw new UsageError('usage: spear servers rm ID...');
  const removed: { server_id: string; revision: unknown }[] = [];
  let exitCode: number = spearExitCodes.ok;
  for (const id of flags.args) {
    try {
      const { value } = await client.request('DELETE', serverPath(id));
      removed.push({ server_id: id, revision: (value as { revision: unknown }).revision });
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
