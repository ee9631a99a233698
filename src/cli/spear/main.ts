import { didYouMean } from '../../base/nearest-key.ts';
import { ConfigError } from '../../config/config-error.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { findSmsAdmin } from '../../config/sms/client.ts';
import { knownSecrets } from '../../secrets/redactor.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { UsageError } from '../usage-error.ts';
import { version } from '../version.ts';
import type { OwnCommand, SpearCommand } from './command.ts';
import { parseSpearFlags } from './flags.ts';
import { spearHelp } from './help.ts';
import { SmsClient, SmsRequestError } from './sms-client.ts';

// Loaded when asked for: what one command needs costs the others start-up time.
const commands: ReadonlyMap<string, () => Promise<SpearCommand>> = new Map([
  ['servers ls', async () => (await import('../servers/ls.ts')).listServers],
  ['servers get', async () => (await import('../servers/ls.ts')).getServer],
  ['servers apply', async () => (await import('../servers/apply.ts')).applyServers],
  ['servers rm', async () => (await import('../servers/rm.ts')).removeServers],
  ['servers test', async () => (await import('../servers/test.ts')).testRegisteredServer],
  ['servers import', async () => (await import('../servers/import.ts')).importServers],
  ['servers export', async () => (await import('../servers/export.ts')).exportServers],
  ['nodes ls', async () => (await import('../nodes/ls.ts')).listNodes],
]);

/** Commands that speak to no registry, or have flags of their own: they get what follows their name. */
const ownCommands: ReadonlyMap<string, () => Promise<OwnCommand>> = new Map([
  ['audit', async () => (await import('../audit/command.ts')).auditCommand],
  ['doctor', async () => (await import('../doctor/command.ts')).doctorCommand],
  ['explain', async () => (await import('../doctor/explain-command.ts')).explainCommand],
  ['componentize', async () => (await import('../componentize/command.ts')).componentizeCommand],
]);

const smsWords = { sms: '--sms', tokenFile: '--token-file', ca: '--ca' };

/** `spear`: from the command line to an exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  const say = (text: string) => process.stderr.write(`spear: ${knownSecrets.redact(text)}\n`);
  try {
    const own = ownCommands.get(argv[0] ?? '');
    if (own) return await (await own())(argv.slice(1));
    const flags = parseSpearFlags(argv);
    if (flags === 'help') return print(spearHelp);
    if (flags === 'version') return print(`spear ${version}\n`);
    const load = commands.get(`${flags.noun} ${flags.verb}`);
    if (load === undefined) {
      const known = [...commands.keys(), ...ownCommands.keys()];
      // One word more than was meant may follow: the file of `spear docter task.wasm`.
      const hint = didYouMean(flags.noun, [...ownCommands.keys()]) ?? didYouMean(`${flags.noun} ${flags.verb}`, known);
      throw new UsageError(`there is no "${flags.noun} ${flags.verb}"; ${hint ?? `there are ${known.join(', ')}`}`);
    }
    const endpoint = findSmsAdmin(flags, processEnvironment, smsWords);
    const command = await load();
    return await command({
      flags,
      client: new SmsClient(endpoint, flags.timeoutMs),
      env: processEnvironment,
      print: (text) => process.stdout.write(knownSecrets.redact(text)),
      say,
    });
  } catch (error) {
    if (error instanceof SmsRequestError) {
      for (const line of describe(error)) say(line);
      return error.exitCode;
    }
    if (!(error instanceof UsageError) && !(error instanceof ConfigError)) throw error;
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
