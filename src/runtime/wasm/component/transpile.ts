import { Worker } from 'node:worker_threads';
import { errorCode } from '../../../base/errors.ts';
import { ModuleError } from '../../abi/guest-module.ts';
import { JCO_VERSION } from './component-cache.ts';

/** Input of jco. With the version of jco it determines the output. */
export interface TranspileOptions {
  readonly asyncImports: readonly string[];
  readonly asyncExports: readonly string[];
}

/** WebAssembly modules of jco. Functions are compiled lazily, for all threads that share the module. */
export interface JcoModule {
  readonly byteLength: number;
  readonly module: WebAssembly.Module;
}

export interface TranspileRequest extends TranspileOptions {
  readonly bytes: Uint8Array;
}

export type TranspileInput = TranspileRequest & { readonly jco: JcoModule | null };

export type TranspileAnswer =
  | {
      readonly ok: true;
      readonly files: readonly (readonly [name: string, bytes: Uint8Array])[];
      readonly jco: JcoModule | null;
    }
  | { readonly ok: false; readonly message: string };

/** Output of jco: JavaScript, and the core modules that it refers to by name. */
export interface Transpiled {
  readonly glue: string;
  readonly coreModules: ReadonlyMap<string, Uint8Array>;
}

/** Heap limit for JavaScript objects of jco, without its linear memory. */
const TRANSPILE_HEAP_MB = 1024;

/** Beside this file: TypeScript in a checkout, JavaScript in the package. */
const workerUrl = new URL(
  import.meta.url.endsWith('.ts') ? './transpile-worker.ts' : './transpile-worker.cjs',
  import.meta.url,
);

/** Maximum output of jco for one component. */
const MAX_GLUE_BYTES = 64 * 1024 * 1024;

/** jco's modules of the last thread, so that the next thread reuses its compiled code. */
let jco: JcoModule | null = null;

/**
 * Runs jco on its own thread, which ends with the result, at the deadline or when `signal` aborts.
 *
 * Precondition: the component was admitted.
 */
export async function transpile(
  request: TranspileRequest,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Transpiled> {
  signal.throwIfAborted();
  const worker = new Worker(workerUrl, {
    workerData: { ...request, jco } satisfies TranspileInput,
    env: {},
    stdout: true, // no caller reads it: standard output is the guest's
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: TRANSPILE_HEAP_MB },
  });
  let deadline: NodeJS.Timeout | undefined;
  let abort = () => {};
  try {
    const answer = await new Promise<TranspileAnswer>((resolve, reject) => {
      abort = () => reject(signal.reason);
      signal.addEventListener('abort', abort);
      deadline = setTimeout(
        () => reject(new ModuleError(`compiling the component took longer than limits.transpile_ms = ${timeoutMs}`)),
        timeoutMs,
      );
      worker.once('message', resolve);
      worker.once('error', (error) => reject(explained(error)));
      worker.once('exit', () => reject(new Error('the thread that compiles the component exited unexpectedly')));
    });
    if (!answer.ok) throw new ModuleError(`not a valid component: ${answer.message}`);
    jco = answer.jco;
    return sorted(answer.files);
  } finally {
    clearTimeout(deadline);
    signal.removeEventListener('abort', abort);
    await worker.terminate();
  }
}

function sorted(files: readonly (readonly [string, Uint8Array])[]): Transpiled {
  const glue = files.find(([name]) => name.endsWith('.js'));
  if (!glue) throw new Error('jco generated no JavaScript');
  if (glue[1].byteLength > MAX_GLUE_BYTES) {
    throw new ModuleError(
      `the types of the component need ${glue[1].byteLength} bytes of glue code, at most ${MAX_GLUE_BYTES} are allowed`,
    );
  }
  return {
    glue: refineGlue(Buffer.from(glue[1]).toString('utf8')),
    coreModules: new Map(files.filter(([name]) => name.endsWith('.wasm'))),
  };
}

function explained(error: unknown): unknown {
  if (errorCode(error) !== 'ERR_WORKER_OUT_OF_MEMORY') return error;
  return new ModuleError(`compiling the component needs more than ${TRANSPILE_HEAP_MB} MiB of memory`);
}

/** Debug log function of jco 1.35, without indentation. */
const DEBUG_LOG = `const _debugLog = (...args) => {
if (!globalThis?.process?.env?.JCO_DEBUG) { return; }
console.debug(...args);
};`;
const SILENT = 'const _debugLog = () => {};';

const ENTRY = 'export function instantiate(getCoreModule, imports, instantiateCore = WebAssembly.instantiate) {';

/** Code that loads other code. Names in a component cannot match: they contain no quotes or brackets. */
const loads = [
  /^\s*import(?:\s+\w|\s*[{*'"])/m,
  /\bimport\s*\(/,
  /^\s*export\s+[\w{*].*\bfrom\s*['"]/m,
  /\brequire\s*\(/,
];

/**
 * Removes the debug log from generated code and checks that the code is one self-contained function. The debug log reads
 * the environment at every step and is half the cost of a call. Unexpected code is an internal error, which the tests of a
 * jco upgrade find.
 */
export function refineGlue(text: string): string {
  const silenced = silence(text);
  if (!silenced.includes(ENTRY))
    throw new Error(`jco ${JCO_VERSION} generated code without the expected entry function`);
  const found = loads.find((pattern) => pattern.test(silenced));
  if (found) throw new Error(`jco ${JCO_VERSION} generated code that loads other code (${found})`);
  return silenced;
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
const debugLog = new RegExp(DEBUG_LOG.split('\n').map(escaped).join('\\n\\s*'), 'g');
const LOOKS_AT_PROCESS = /\bprocess\?\./;

function silence(text: string): string {
  const silenced = text.replace(debugLog, SILENT);
  if (silenced === text || LOOKS_AT_PROCESS.test(silenced)) {
    throw new Error(`jco ${JCO_VERSION} generated an unexpected debug log function`);
  }
  return silenced;
}
