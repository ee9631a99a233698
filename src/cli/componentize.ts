import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { errorCode } from '../base/errors.ts';
import type { Call } from './command-table.ts';
import { spearExitCodes, UsageError } from './exit-codes.ts';

/** `imports`: a program with a `main`, entered through `wasi:cli/run`; `task`: it exports `run` itself. */
export type World = 'imports' | 'task';

export class ComponentizeError extends Error {}

const WASI = 'wasi_snapshot_preview1';

const inCheckout = import.meta.url.endsWith('.ts');
const file = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export const witFile = () => file(inCheckout ? '../../wit/spear.wit' : '../wit/spear.wit');

/** Turns WASI preview 1 into preview 2, and `_start` into `wasi:cli/run`. The build copies both next to the commands. */
const adapterFile = (kind: 'command' | 'reactor') =>
  file(`${inCheckout ? '../../node_modules/@bytecodealliance/jco/lib' : '.'}/${WASI}.${kind}.wasm`);

/**
 * Makes a component of a core module that imports the functions of wit/spear.wit.
 * @throws ComponentizeError if the module does not fit the world
 */
export async function componentize(module: Uint8Array, given?: World): Promise<Uint8Array> {
  const compiled = await compile(module);
  const world = given ?? worldOf(compiled);
  const { componentEmbed, componentNew } = await import('@bytecodealliance/jco-transpile/wasm-tools');
  const modules = new Set(WebAssembly.Module.imports(compiled).map((found) => found.module));
  if (modules.has('spear')) {
    throw new ComponentizeError(
      'compiled as a core module for Spear; compile with -DSPEAR_COMPONENT (C) or asconfig.component.json (AssemblyScript)',
    );
  }
  const adapters: [string, Uint8Array][] = modules.has(WASI)
    ? [[WASI, readFileSync(adapterFile(world === 'imports' ? 'command' : 'reactor'))]]
    : [];
  try {
    const witSource = readFileSync(witFile(), 'utf8');
    return await componentNew(await componentEmbed({ binary: module, witSource, world }), adapters);
  } catch (error) {
    throw new ComponentizeError(`does not match world ${world} of spear.wit: ${describe(error)}`);
  }
}

async function compile(module: Uint8Array): Promise<WebAssembly.Module> {
  try {
    return await WebAssembly.compile(module as Uint8Array<ArrayBuffer>);
  } catch (error) {
    throw new ComponentizeError(`not a core module: ${(error as Error).message}`);
  }
}

function worldOf(module: WebAssembly.Module): World {
  const exported = new Set(WebAssembly.Module.exports(module).map(({ name }) => name));
  if (exported.has('_start')) return 'imports';
  if (exported.has('run')) return 'task';
  throw new ComponentizeError('exports neither _start nor run, so it has no entry point');
}

function describe(error: unknown): string {
  const payload = (error as { payload?: unknown }).payload;
  return String(payload ?? (error as Error).message).replaceAll(/\s+/g, ' ');
}

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
