import { RequestError } from '../api-client.ts';
import { runProgram } from '../run-program.ts';
import { bounded, outputOf } from '../say.ts';
import { spearProgram } from './table.ts';

/** `spear`: from the command line to an exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  const output = outputOf(spearProgram.name);
  try {
    return await runProgram(spearProgram, argv, output);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    for (const line of bounded(describe(error))) output.say(line);
    return error.exitCode;
  }
}

/** One line per invalid field, where the registry names them. */
function describe({ message, problem }: RequestError): string[] {
  const errors = Array.isArray(problem?.errors) ? problem.errors : [];
  if (errors.length === 0) return message.split('\n');
  return errors.map((error) => {
    const { field, detail } = error as { field?: string; detail?: string };
    return field ? `${field}: ${detail}` : String(detail);
  });
}
