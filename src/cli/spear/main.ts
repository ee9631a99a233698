import { NodeRequestError } from '../node/node-client.ts';
import { runProgram } from '../run-program.ts';
import { outputOf } from '../say.ts';
import { spearProgram } from './table.ts';

/** `spear`: from the command line to an exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  const output = outputOf(spearProgram.name);
  try {
    return await runProgram(spearProgram, argv, output);
  } catch (error) {
    if (!(error instanceof NodeRequestError)) throw error;
    for (const line of error.message.split('\n')) output.say(line);
    return error.exitCode;
  }
}
