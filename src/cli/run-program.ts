import { visibleLines } from '../base/text.ts';
import { version } from '../base/version.ts';
import { ConfigError } from '../config/config-error.ts';
import { knownSecrets } from '../server/secrets/redactor.ts';
import { CommandUsageError, readCommandLine } from './command-line.ts';
import type { Program } from './command-table.ts';
import { spearExitCodes, UsageError } from './exit-codes.ts';

export interface ProgramOutput {
  readonly print: (text: string) => void;
  /** One line on stderr. */
  readonly say: (text: string) => void;
}

/** From the command line to an exit code. Errors that are not about usage or config are the command's own to handle. */
export async function runProgram(program: Program, argv: readonly string[], output: ProgramOutput): Promise<number> {
  try {
    const request = readCommandLine(program, argv);
    if (request.kind === 'run') return await (await request.call.command.load())(request.call);
    if (request.kind === 'version') output.print(`${program.name} ${version}\n`);
    else output.print((await import('./command-help.ts')).helpText(program, request.path));
    return spearExitCodes.ok;
  } catch (error) {
    if (!(error instanceof UsageError) && !(error instanceof ConfigError)) throw error;
    for (const line of error.message.split('\n')) output.say(line);
    return error instanceof CommandUsageError ? error.exitCode : spearExitCodes.usage;
  }
}

const MAX_CAUSES = 5;

/** Prints uncaught errors and unhandled rejections through the redactor, and exits: Node would print all their fields. */
export function crashWithoutSecrets(command: string, exitCode: number): void {
  process.on('uncaughtException', (error: unknown) => {
    try {
      process.stderr.write(`${command}: internal error, please report it\n${crashText(error)}\n`);
    } finally {
      process.exit(exitCode);
    }
  });
}

/** Stacks only: other fields of an error may hold a request with its headers. */
function crashText(error: unknown): string {
  const stacks: string[] = [];
  let cause = error;
  for (let depth = 0; depth <= MAX_CAUSES && cause !== undefined; depth++) {
    stacks.push(cause instanceof Error ? (cause.stack ?? String(cause)) : String(cause));
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return visibleLines(knownSecrets.redact(stacks.join('\ncaused by: ')));
}
