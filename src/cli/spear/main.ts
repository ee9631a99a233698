import { version } from '../../base/version.ts';
import { visible } from '../../base/visible-text.ts';
import { ConfigError } from '../../config/config-error.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { findSmsAdmin } from '../../config/sms/client.ts';
import { knownSecrets } from '../../secrets/redactor.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { NodeRequestError } from '../node/node-client.ts';
import { UsageError } from '../usage-error.ts';
import { commands, helpOn, isCommand, ownCommands, unknownCommand } from './commands.ts';
import { parseSpearFlags } from './flags.ts';
import { SmsClient, SmsRequestError } from './sms-client.ts';

const smsWords = { sms: '--sms', tokenFile: '--token-file', ca: '--ca' };

/** `spear`: from the command line to an exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  const say = (text: string) => process.stderr.write(`spear: ${visible(knownSecrets.redact(text))}\n`);
  try {
    const [word = '', ...rest] = argv;
    const own = ownCommands.get(word);
    if (own) return await (await own())(rest);
    if (word === 'help') return await printHelp(rest);
    if (word === 'version') return print(`spear ${version}\n`);
    // Before its flags are read: those of a misspelled command are not known either.
    if (word !== '' && !word.startsWith('-') && !isCommand(word)) throw unknownCommand(argv);
    const flags = parseSpearFlags(argv);
    if (flags === 'version') return print(`spear ${version}\n`);
    if ('help' in flags) return await printHelp(flags.help);
    const load = commands.get(`${flags.noun} ${flags.verb}`);
    if (load === undefined) throw unknownCommand([flags.noun, flags.verb]);
    const endpoint = findSmsAdmin(flags, processEnvironment, smsWords);
    if (endpoint.warning !== null) say(endpoint.warning);
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
    if (error instanceof NodeRequestError) {
      for (const line of error.message.split('\n')) say(line);
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

async function printHelp(words: readonly string[]): Promise<number> {
  const help = await helpOn(words);
  return typeof help === 'string' ? print(help) : help(['--help']);
}

function print(text: string): number {
  process.stdout.write(text);
  return spearExitCodes.ok;
}
