import { runProgram } from '../run-program.ts';
import { print, say } from './output.ts';
import { runProgramTable } from './table.ts';

/** `spear-run`: from the command line to an exit code. */
export const main = (argv: readonly string[]): Promise<number> => runProgram(runProgramTable, argv, { print, say });
