import { existsSync } from 'node:fs';
import { CommandUsageError } from '../command-line.ts';
import type { Call } from '../command-table.ts';
import { outputOf } from '../say.ts';
import { runModule } from './command.ts';
import type { RunFlagValues } from './flags.ts';

/** `spear run FILE.wasm`: like `spear-run FILE.wasm`. */
export async function runFile(call: Call<RunFlagValues>): Promise<number> {
  const [file = ''] = call.args;
  if (!existsSync(file)) {
    throw new CommandUsageError(`${file}: no such file; "spear run TASK" submits a task by its name`, call.command);
  }
  outputOf(call.program.name).say(`running ${file} in this process`);
  return runModule(call);
}
