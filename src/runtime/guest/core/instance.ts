import { wasiErrno } from '../../abi/errno.ts';
import { ENTRIES, NO_FUNCTION_TABLE, WASI_MODULE } from '../../abi/guest-module.ts';
import type { GuestMemory } from '../../abi/memory.ts';
import type { CoreStart, GuestEnding, UnknownImport } from '../../port/port.ts';
import { PREEMPTION_MODULE, START_EXPORT } from '../../port/preemption.ts';
import type { CancellationScope } from '../cancellation-scope.ts';
import type { GuestState, ToolRunner } from '../hostcalls/guest-state.ts';
import type { Output } from '../hostcalls/output.ts';
import type { HostcallTable } from '../hostcalls/table.ts';
import type { YieldPoints } from '../scheduler.ts';
import { describeTrap, throwTrap } from '../trap.ts';
import { preview1 } from '../wasi/preview1.ts';
import { bindCoreImports } from './bind.ts';
import { CoreToolRunner, functionTable } from './tool-runner.ts';

export interface CoreGuest {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly output: Output;
  /** `runTool` is set once the instance exists. */
  readonly state: Omit<GuestState, 'runTool'> & { runTool: ToolRunner };
  /** Calls made so far, by row of the table. */
  readonly counts: Float64Array;
  readonly table: HostcallTable;
  /** Null: the guest has a dedicated thread. */
  readonly scope: CancellationScope | null;
  readonly yieldPoints: YieldPoints;
  newMemory(): GuestMemory;
  readStdin(maxBytes: number): Promise<Uint8Array>;
}

type Exports = WebAssembly.Instance['exports'];

const ENOSYS = -38;

/** Links, starts and runs a core module to its end. */
export function runCore(guest: CoreGuest, start: CoreStart): Promise<GuestEnding> {
  return new CoreRun(guest).run(start);
}

/** One execution of a module. Kept small: thousands of guests wait at once. */
class CoreRun {
  readonly #guest: CoreGuest;
  readonly #memory: GuestMemory;
  #exports: Exports | null = null;
  /** Created by the first tool call. */
  #tools: CoreToolRunner | null = null;
  #exitCode: number | null = null;

  constructor(guest: CoreGuest) {
    this.#guest = guest;
    this.#memory = guest.newMemory();
    guest.state.runTool = (request, arena) => this.#openTools().run(request, arena);
  }

  async run(start: CoreStart): Promise<GuestEnding> {
    let ending: GuestEnding;
    try {
      const exports = this.#instantiate(start);
      if (start.turns?.hasStart) await this.#start(exports[START_EXPORT] as WebAssembly.GuestFunction);
      if (exports.memory instanceof WebAssembly.Memory) this.#memory.attach(exports.memory);
      this.#exports = exports;
      if (typeof exports._initialize === 'function') await WebAssembly.promising(exports._initialize)();
      const entry = ENTRIES.find((name) => typeof exports[name] === 'function') as (typeof ENTRIES)[number];
      const returned = await WebAssembly.promising(exports[entry] as WebAssembly.GuestFunction)();
      ending = { kind: 'exit', code: entry === 'run' ? Number(returned ?? 0) | 0 : 0 };
    } catch (error) {
      ending = this.#exitCode === null ? describeTrap(error) : { kind: 'exit', code: this.#exitCode };
    }
    const checked = this.#checkTools(ending);
    this.#guest.state.fds.closeAll();
    return checked;
  }

  #instantiate({ module, unknownImports, turns }: CoreStart): Exports {
    const guest = this.#guest;
    const memory = this.#memory;
    const { counts, scope } = guest;
    const spear = bindCoreImports(guest.table, { guest: guest.state, memory, counts, scope });
    let wasi: ReturnType<typeof preview1> | undefined;
    const turnTaking = turns === null ? undefined : guest.yieldPoints.imports(turns.memory);
    const imports = linkImports(module, unknownImports, (from, name) => {
      if (from === PREEMPTION_MODULE && turnTaking !== undefined) return own(turnTaking, name);
      if (from === 'spear') return spear(name);
      if (from === WASI_MODULE) {
        wasi ??= this.#wasi();
        return own(wasi, name);
      }
      return from === 'env' && name === 'abort' ? abortImport(memory, guest.output) : undefined;
    });
    return new WebAssembly.Instance(module, imports).exports;
  }

  #wasi(): ReturnType<typeof preview1> {
    const { args, env, output, scope, state } = this.#guest;
    return preview1({
      ...{ args, env, output, scope, sources: state.sources, memory: this.#memory },
      readStdin: (maxBytes) => this.#guest.readStdin(maxBytes),
      exit: (code) => {
        this.#exitCode = code;
        return throwTrap();
      },
    });
  }

  #openTools(): CoreToolRunner {
    if (this.#exports === null) throw new Error('a tool was called before the instance existed');
    const isEnding = () => this.#exitCode !== null || this.#guest.scope?.ended === true;
    const notice = (text: string) => this.#guest.state.notice(text);
    this.#tools ??= new CoreToolRunner(this.#memory, functionTable(this.#exports), isEnding, notice);
    return this.#tools;
  }

  /** Runs the start section as the engine would (no valid pointers, no blocking calls), but with yield points. */
  async #start(section: WebAssembly.GuestFunction): Promise<void> {
    const { scope } = this.#guest;
    if (scope) scope.canSuspend = false;
    await WebAssembly.promising(section)();
    if (scope) scope.canSuspend = true;
  }

  /** Guests rarely notice failed tool calls, so a successful exit without callable tools is reported as a failure. */
  #checkTools(ending: GuestEnding): GuestEnding {
    if (!this.#tools?.unreachable) return ending;
    const message = `the tools of the guest could not be called: ${NO_FUNCTION_TABLE}`;
    if (ending.kind === 'exit' && ending.code === 0) return { kind: 'load_failed', message };
    this.#guest.state.notice(message);
    return ending;
  }
}

/**
 * Creates only the imports of this module. Names come from the guest, so they are looked up without prototypes.
 */
function linkImports(
  importing: WebAssembly.Module,
  unknown: readonly UnknownImport[],
  known: (module: string, name: string) => unknown,
): WebAssembly.Imports {
  const imports: WebAssembly.Imports = Object.create(null);
  for (const { module, name } of importsOf(importing)) {
    imports[module] ??= Object.create(null) as Record<string, unknown>;
    imports[module][name] = known(module, name) ?? missing(unknown, module, name);
  }
  return imports;
}

type ModuleImports = ReturnType<typeof WebAssembly.Module.imports>;

const knownImports = new WeakMap<WebAssembly.Module, ModuleImports>();

/** Cached per module: the engine creates the list on every call. */
function importsOf(module: WebAssembly.Module): ModuleImports {
  const known = knownImports.get(module) ?? WebAssembly.Module.imports(module);
  knownImports.set(module, known);
  return known;
}

const own = <T>(from: Readonly<Record<string, T>>, key: string): T | undefined =>
  Object.hasOwn(from, key) ? from[key] : undefined;

function missing(unknown: readonly UnknownImport[], module: string, name: string): () => number | bigint {
  if (module === WASI_MODULE) return () => wasiErrno.NOSYS;
  const result = unknown.find((found) => found.module === module && found.name === name)?.result;
  return () => (result === 'i64' ? BigInt(ENOSYS) : ENOSYS);
}

const MAX_TEXT_BYTES = 4096;

/** `env.abort` of AssemblyScript: writes the position to stderr, then traps. */
export function abortImport(memory: GuestMemory, output: Output) {
  return (message: number, file: number, line: number, column: number): never => {
    const where = `${readString(memory, file) || 'unknown file'}:${line}:${column}`;
    output.write('stderr', Buffer.from(`abort: ${readString(memory, message) || 'no message'} at ${where}\n`));
    return throwTrap();
  };
}

/** An AssemblyScript string is UTF-16 with its byte length four bytes before it. */
function readString(memory: GuestMemory, at: number): string {
  const ptr = at >>> 0;
  if (ptr < 4 || !memory.holds(ptr - 4, 4)) return '';
  const length = Math.min(memory.words.getUint32(ptr - 4, true), MAX_TEXT_BYTES);
  return memory.holds(ptr, length) ? memory.bytes.toString('utf16le', ptr, ptr + length) : '';
}
