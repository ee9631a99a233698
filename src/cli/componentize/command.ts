import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { errorCode } from '../../base/error-text.ts';
import type { Call } from '../command-table.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { UsageError } from '../usage-error.ts';
import { ComponentizeError, componentize, type World } from './componentize.ts';

interface ComponentizeFlags {
  readonly output: string;
  readonly world: World | undefined;
}

/** `spear componentize`: for toolchains that stop at core modules. */
export async function componentizeCommand(call: Call<ComponentizeFlags>): Promise<number> {
  const { output, world } = call.flags;
  const [input = ''] = call.args;
  try {
    const component = await componentize(read(input), world);
    write(output, component);
    process.stdout.write(`${output}: ${component.byteLength} bytes\n`);
    return spearExitCodes.ok;
  } catch (error) {
    if (!(error instanceof ComponentizeError)) throw error;
    process.stderr.write(`spear: ${input}: ${error.message}\n`);
    return spearExitCodes.failed;
  }
}

function read(file: string): Uint8Array {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new UsageError(`${file}: cannot be read (${errorCode(error)})`);
  }
}

/** Atomic: an existing file stays intact if writing fails. */
function write(file: string, bytes: Uint8Array): void {
  try {
    writeFileSync(`${file}.new`, bytes);
    renameSync(`${file}.new`, file);
  } catch (error) {
    throw new UsageError(`--output ${file}: cannot be written (${errorCode(error)})`);
  }
}
