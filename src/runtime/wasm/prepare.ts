import { readFileSync, statSync } from 'node:fs';
import { errorCode } from '../../base/errors.ts';
import { didYouMean } from '../../base/validation.ts';
import { type Call, calls, coreParams } from '../abi/calls.ts';
import { ENTRIES, ModuleError, WASI_MODULE } from '../abi/guest-module.ts';
import type { Limits } from '../port/limits.ts';
import type { UnknownImport } from '../port/port.ts';
import { PREEMPTION_MODULE, type Turns } from '../port/preemption.ts';
import { boundMemory } from './bound-memory.ts';
import { describeComponent, type PreparedComponent } from './component/component-stages.ts';
import { enablePromptTermination, engineCompile } from './engine.ts';
import { type FunctionType, importTypes } from './import-types.ts';
import { binaryKind } from './wasm-binary.ts';

export interface PreparedModule {
  readonly kind: 'core';
  readonly module: WebAssembly.Module;
  /** Unknown imports that the caller allowed. */
  readonly unknownImports: readonly UnknownImport[];
  /** Null: the module has no yield points. */
  readonly turns: Turns | null;
  /** Why the module must not share a thread; null: it may, if it has yield points. */
  readonly unshareable: string | null;
}

export type Prepared = PreparedModule | PreparedComponent;

export interface PrepareOptions {
  readonly limits: Limits;
  /** For core modules only; unknown imports of components are always an error. */
  readonly allowUnknownImports: boolean;
  /** Directory of the cache of compiled components; null: no cache. @default null */
  readonly componentCache?: string | null;
  /** @default notices are dropped */
  readonly onNotice?: (text: string) => void;
  /** Ends the compilation of a component. @default never */
  readonly signal?: AbortSignal | null;
  /** Whether to add yield points for cooperative preemption. @default false */
  readonly preemptible?: boolean;
}

/** Prepares a binary for execution: kind, admission, memory bounds, compilation, imports, entry point. */
export async function prepare(bytes: Uint8Array, options: PrepareOptions): Promise<Prepared> {
  const kind = binaryKind(bytes);
  const { limits } = options;
  if (kind === undefined) throw new ModuleError('not a WebAssembly binary');
  if (bytes.byteLength > limits.module_bytes) {
    throw new ModuleError(`the module has ${bytes.byteLength} bytes, limits.module_bytes is ${limits.module_bytes}`);
  }
  if (kind === 'core') return prepareModule(bytes, options);
  // Loaded on demand, so that core modules start faster.
  const { prepareComponent } = await import('./component/prepare-component.ts');
  return prepareComponent(bytes, limits, {
    cacheDirectory: options.componentCache ?? null,
    onNotice: options.onNotice ?? (() => {}),
    signal: options.signal ?? new AbortController().signal,
    preemptible: options.preemptible ?? false,
  });
}

async function prepareModule(
  bytes: Uint8Array,
  { limits, allowUnknownImports, preemptible = false }: PrepareOptions,
): Promise<PreparedModule> {
  enablePromptTermination();
  const bounded = boundMemory(bytes, limits);
  const { module, turns, unshareable } = preemptible ? await compilePreemptible(bounded) : await compileAsItIs(bounded);
  const imports = importsOf(module, turns);
  const unknownImports = checkImports(imports, importTypes(bytes));
  if (unknownImports.length > 0 && !allowUnknownImports) throw unknownError(unknownImports);
  checkExports(module, imports);
  return { kind: 'core', module, unknownImports, turns, unshareable };
}

type Compiled = Pick<PreparedModule, 'module' | 'turns' | 'unshareable'>;

async function compileAsItIs(bytes: Uint8Array, unshareable: string | null = null): Promise<Compiled> {
  return { module: await compile(bytes), turns: null, unshareable };
}

/** Adds yield points, if possible. The pass is loaded only by hosts whose guests share threads. */
async function compilePreemptible(bytes: Uint8Array): Promise<Compiled> {
  const { addYieldPoints } = await import('./preemption/add-yield-points.ts');
  try {
    const turned = addYieldPoints(bytes, true);
    if (turned === null) return await compileAsItIs(bytes);
    const { memory, hasStart } = turned;
    return { module: await compile(turned.bytes), turns: { memory, hasStart }, unshareable: null };
  } catch (error) {
    if (!(error instanceof ModuleError)) throw error;
    return compileAsItIs(bytes, `yield points cannot be added: ${error.message}`);
  }
}

/** The imports without those that the preemption pass added. */
function importsOf(module: WebAssembly.Module, turns: Turns | null): WebAssembly.ModuleImport[] {
  const imports = WebAssembly.Module.imports(module);
  return turns === null ? imports : imports.filter(({ module: from }) => from !== PREEMPTION_MODULE);
}

const compile = (bytes: Uint8Array) => engineCompile(bytes, 'the module');

const rows = new Map<string, Call>(calls.map((row) => [row.name, row]));

function checkImports(
  imports: readonly WebAssembly.ModuleImport[],
  types: ReturnType<typeof importTypes>,
): UnknownImport[] {
  const unknown: UnknownImport[] = [];
  for (const [index, { module: from, name, kind }] of imports.entries()) {
    if (kind !== 'function') {
      throw new ModuleError(
        `the module imports the ${kind} ${from}.${name}; a guest must define its own and export its memory`,
      );
    }
    const type = types[index];
    const row = from === 'spear' ? rows.get(name) : undefined;
    if (row) checkSignature(row, type);
    else if (from !== WASI_MODULE && !(from === 'env' && name === 'abort')) {
      unknown.push({ module: from, name, result: type?.results[0] ?? 'none' });
    }
  }
  return unknown;
}

/** Rejects a wrong signature, which would fail at the first call. A guest may ignore a result. */
function checkSignature(row: Call, type: FunctionType | undefined): void {
  if (!type) return;
  const params = coreParams(row);
  const sameParams = type.params.length === params.length && type.params.every((param) => param === 'i32');
  const result = type.results[0] ?? 'none';
  const sameResult = result === row.result || result === 'none' || (row.result === 'none' && result === 'i32');
  if (sameParams && sameResult) return;
  throw new ModuleError(
    `the module imports spear.${row.name} as (${type.params.join(', ')}) -> ${result}; the ABI has (${params.map(() => 'i32').join(', ')}) -> ${row.result}`,
  );
}

/** Import module names of a component's interfaces: `spear:host/cchat@1.0.0`, `cm32p2|wasi:cli/stdout@0.2`. */
const INTERFACE = /^(?:cm32p2\|)?[\w-]+:[\w-]+\/[\w-]+(?:@|$)/;

function unknownError(unknown: readonly UnknownImport[]): ModuleError {
  const interfaces = new Set(unknown.map(({ module }) => module).filter((module) => INTERFACE.test(module)));
  if (interfaces.size > 0) {
    const names = [...interfaces].join(', ');
    return new ModuleError(
      `this is the core module of a component, not the component: it imports ${names}`,
      'component_parts',
    );
  }
  const names = unknown.map(({ module, name }) => {
    const hint = module === 'spear' ? didYouMean(name, [...rows.keys()]) : undefined;
    return hint ? `${module}.${name} (${hint})` : `${module}.${name}`;
  });
  return new ModuleError(
    `the module has imports that this host does not provide: ${names.join(', ')}`,
    'unknown_imports',
  );
}

function checkExports(module: WebAssembly.Module, imports: readonly WebAssembly.ModuleImport[]): void {
  const exported = new Map(WebAssembly.Module.exports(module).map(({ name, kind }) => [name, kind]));
  if (!ENTRIES.some((entry) => exported.get(entry) === 'function')) {
    throw new ModuleError('the module has no entry point: it exports neither _start nor run');
  }
  if (imports.length > 0 && exported.get('memory') !== 'memory') {
    throw new ModuleError('the module does not export its memory as "memory", which hostcalls need');
  }
}

/** One-line description of a prepared module for users. */
export function describePrepared(prepared: Prepared): string {
  if (prepared.kind === 'component') return describeComponent(prepared);
  const unknown = prepared.unknownImports.length;
  return `core module${unknown ? `, ${unknown} unknown imports` : ''}`;
}

/**
 * Reads the file of a module. Synchronous, because loading node:fs/promises takes longer than reading most modules. A
 * failure rejects the promise and is no unhandled rejection, so that callers can start the read early.
 */
export function readModule(file: string): Promise<Uint8Array> {
  const bytes = read(file);
  bytes.catch(() => {});
  return bytes;
}

async function read(file: string): Promise<Uint8Array> {
  try {
    return readFileSync(file);
  } catch (error) {
    const code = errorCode(error);
    const isFolder = code === 'EISDIR' || statSync(file, { throwIfNoEntry: false })?.isDirectory();
    throw new ModuleError(
      isFolder ? 'is a directory' : code === 'ENOENT' ? 'no such file' : `cannot read the file (${code})`,
    );
  }
}
