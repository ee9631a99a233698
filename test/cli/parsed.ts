import { readCommandLine } from '../../src/cli/command-line.ts';
import type { Program } from '../../src/cli/command-table.ts';
import { type RunFlags, runFlags } from '../../src/cli/run/flags.ts';
import { runProgramTable } from '../../src/cli/run/table.ts';

/** A parsed command line: the path of its command, its flags and arguments; or that help or the version is requested. */
export function parsed(program: Program, argv: readonly string[]) {
  const request = readCommandLine(program, argv);
  if (request.kind !== 'run') return request.kind;
  const { command, flags, args, rest } = request.call;
  return { path: command.path, flags: flags as Readonly<Record<string, unknown>>, args, rest };
}

export function parsedRun(argv: readonly string[]): RunFlags | 'help' | 'version' {
  const request = readCommandLine(runProgramTable, argv);
  return request.kind === 'run' ? runFlags(request.call) : request.kind;
}
