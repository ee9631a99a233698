import { version } from '../base/version.ts';
import { ConfigError } from '../config/config-error.ts';
import { CommandUsageError, readCommandLine } from './command-line.ts';
import type { Program } from './command-table.ts';
import { spearExitCodes } from './exit-codes.ts';
import { UsageError } from './usage-error.ts';

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
