import { processEnvironment } from '../config/process-environment.ts';
import { SmsConfigError } from '../config/sms-config.ts';
import { findSmsAdmin } from '../config/sms-config-client.ts';
import { listNodes } from './nodes-ls.ts';
import { applyServers } from './servers-apply.ts';
import { exportServers } from './servers-export.ts';
import { importServers } from './servers-import.ts';
import { getServer, listServers } from './servers-ls.ts';
import { removeServers } from './servers-rm.ts';
import { testRegisteredServer } from './servers-test.ts';
import { SmsClient, SmsRequestError } from './spear-client.ts';
import type { SpearCommand } from './spear-command.ts';
import { spearExitCodes } from './spear-exit-codes.ts';
import { parseSpearFlags } from './spear-flags.ts';
import { spearHelp } from './spear-help.ts';
import { UsageError } from './usage-error.ts';
import { version } from './version.ts';

const commands: ReadonlyMap<string, SpearCommand> = new Map([
  ['servers ls', listServers],
  ['servers get', getServer],
  ['servers apply', applyServers],
  ['servers rm', removeServers],
  ['servers test', testRegisteredServer],
  ['servers import', importServers],
  ['servers export', exportServers],
  ['nodes ls', listNodes],
]);

/** `spear`: from the command line to an exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  const say = (text: string) => process.stderr.write(`spear: ${text}\n`);
  try {
    const flags = parseSpearFlags(argv);
    if (flags === 'help') return print(spearHelp);
    if (flags === 'version') return print(`spear ${version}\n`);
    const command = commands.get(`${flags.noun} ${flags.verb}`);
    if (command === undefined) {
      throw new UsageError(`there is no "${flags.noun} ${flags.verb}"; there are ${[...commands.keys()].join(', ')}`);
    }
    const endpoint = findSmsAdmin(flags, processEnvironment);
    return await command({
      flags,
      client: new SmsClient(endpoint, flags.timeoutMs),
      env: processEnvironment,
      print: (text) => process.stdout.write(text),
      say,
    });
  } catch (error) {
    if (error instanceof SmsRequestError) {
      for (const line of describe(error)) say(line);
      return error.exitCode;
    }
    if (!(error instanceof UsageError) && !(error instanceof SmsConfigError)) throw error;
    say(error.message);
    return spearExitCodes.usage;
  }
}

function describe({ message, problem }: SmsRequestError): string[] {
  const errors = Array.isArray(problem?.errors) ? problem.errors : [];
  if (errors.length === 0) return [message];
  return errors.map((error) => {
    const { field, detail } = error as { field?: string; detail?: string };
    return field ? `${field}: ${detail}` : String(detail);
  });
}

function print(text: string): number {
  process.stdout.write(text);
  return spearExitCodes.ok;
}
