import { runProgram } from '../run-program.ts';
// Imported here as well, so that the bundler puts the implementation into this chunk: every further file costs start-up
// time. perf: bench/topics/start.ts
import './command.ts';
import { print, say } from './output.ts';
import { runProgramTable } from './table.ts';

/** `spear-run`: from the command line to an exit code. */
export const main = (argv: readonly string[]): Promise<number> => runProgram(runProgramTable, argv, { print, say });
