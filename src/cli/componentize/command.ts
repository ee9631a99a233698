import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { errorCode } from '../../base/error-text.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { parseFlags } from '../parse-flags.ts';
import type { OwnCommand } from '../spear/command.ts';
import { UsageError } from '../usage-error.ts';
import { ComponentizeError, componentize, type World } from './componentize.ts';

const options = {
  output: { type: 'string', short: 'o' },
  world: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const;

const help = `spear componentize makes a component of a core module that imports the functions of spear.wit.

Usage:
  spear componentize MODULE.wasm -o COMPONENT.wasm [--world task|imports]

The world is task for a module that exports run, imports for a program with a main; WASI preview 1 is adapted.
Guests in C and AssemblyScript need this step, and those in Rust unless they are built for wasm32-wasip2;
componentize-qjs makes components of JavaScript by itself.
`;

/** `spear componentize`: for toolchains that stop at core modules. */
export const componentizeCommand: OwnCommand = async (argv) => {
  const { values, positionals } = parseFlags(argv, options, 'spear');
  if (values.help) {
    process.stdout.write(help);
    return spearExitCodes.ok;
  }
  const [input, ...more] = positionals;
  if (input === undefined || more.length > 0 || values.output === undefined) {
    throw new UsageError('usage: spear componentize MODULE.wasm -o COMPONENT.wasm [--world task|imports]');
  }
  try {
    const component = await componentize(read(input), world(values.world));
    write(values.output, component);
    process.stdout.write(`${values.output}: ${component.byteLength} bytes\n`);
    return spearExitCodes.ok;
  } catch (error) {
    if (!(error instanceof ComponentizeError)) throw error;
    process.stderr.write(`spear: ${input}: ${error.message}\n`);
    return spearExitCodes.failed;
  }
};

function world(text: string | undefined): World | undefined {
  if (text === undefined || text === 'task' || text === 'imports') return text;
  throw new UsageError(`--world: expected task or imports, found ${JSON.stringify(text)}`);
}

function read(file: string): Uint8Array {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new UsageError(`${file}: it cannot be read (${errorCode(error)})`);
  }
}

/** Whole or not at all: what stood there before is still good when this fails. */
function write(file: string, bytes: Uint8Array): void {
  try {
    writeFileSync(`${file}.new`, bytes);
    renameSync(`${file}.new`, file);
  } catch (error) {
    throw new UsageError(`--output ${file}: it cannot be written (${errorCode(error)})`);
  }
}
