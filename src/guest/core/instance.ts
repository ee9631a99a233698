import { wasiErrno } from '../../abi/errno.ts';
import { ENTRIES, NO_FUNCTION_TABLE, WASI_MODULE } from '../../abi/guest-module.ts';
import type { GuestMemory } from '../../abi/memory.ts';
import type { GuestState } from '../../hostcalls/guest-state.ts';
import type { Output } from '../../hostcalls/output.ts';
import type { HostcallTable } from '../../hostcalls/table.ts';
import type { GuestEnding, UnknownImport } from '../../protocol/port.ts';
import { START_EXPORT, TURNS_MODULE, type Turns } from '../../protocol/turns.ts';
import type { TurnTaking } from '../guest-turns.ts';
import type { Leash } from '../leash.ts';
import { throwUncatchable } from '../uncatchable.ts';
import { preview1 } from '../wasi/preview1.ts';
import { abortImport } from './assemblyscript.ts';
import { bindCoreImports } from './bind.ts';
import { CoreToolRunner, functionTable } from './tool-runner.ts';
import { describeTrap } from './trap.ts';

export interface CoreGuest {
  readonly module: WebAssembly.Module;
  readonly unknownImports: readonly UnknownImport[];
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly output: Output;
  readonly readStdin: (maxBytes: number) => Promise<Uint8Array>;
  /** Everything of the guest's state but what needs the instance. */
  readonly state: Omit<GuestState, 'runTool'>;
  /** Calls made so far, by row of the table. */
  readonly counts: Float64Array;
  /** What its calls do. */
  readonly table: HostcallTable;
  readonly newMemory: () => GuestMemory;
  /** Null: the guest has its thread for itself. */
  readonly leash: Leash | null;
  readonly giveWay: TurnTaking;
  /** Null: its module does not give way. */
  readonly turns: Turns | null;
}

const ENOSYS = -38;

/** Links, starts and runs a core module to its end. */
export async function runCore(guest: CoreGuest): Promise<GuestEnding> {
  const memory = guest.newMemory();
  const { counts, leash } = guest;
  let exitCode: number | undefined;
  let tools: CoreToolRunner | undefined;

  const exit = (code: number): never => {
    exitCode = code;
    return throwUncatchable();
  };
  const state: GuestState = Object.assign(guest.state, {
    runTool: (...request: Parameters<GuestState['runTool']>) => {
      if (!tools) throw new Error('a tool was called before the instance existed');
      return tools.run(...request);
    },
  });
  const spear = bindCoreImports(guest.table, { guest: state, memory, counts, leash });
  let wasi: ReturnType<typeof preview1> | undefined;
  const turnTaking = guest.turns === null ? undefined : guest.giveWay.imports(guest.turns.memory);
  const imports = linkImports(guest, (module, name) => {
    if (module === TURNS_MODULE && turnTaking !== undefined) return own(turnTaking, name);
    if (module === 'spear') return spear(name);
    if (module === WASI_MODULE) {
      wasi ??= preview1({ ...guest, chance: guest.state.chance, memory, exit });
      return own(wasi, name);
    }
    return module === 'env' && name === 'abort' ? abortImport(memory, guest.output) : undefined;
  });

  const ending = judge(await enter());
  state.fds.closeAll();
  return ending;

  /** A guest rarely notices that the model's calls of its tools failed: a run without tools must not look like a good one. */
  function judge(ending: GuestEnding): GuestEnding {
    if (!tools?.unreachable) return ending;
    const message = `its tools could not be called: ${NO_FUNCTION_TABLE}`;
    if (ending.kind === 'exit' && ending.code === 0) return { kind: 'load_failed', message };
    guest.state.notice(`the guest: ${message}`);
    return ending;
  }

  /** As the engine would have: no pointer is valid yet, and no call can wait; only that others have their turns. */
  async function start(section: WebAssembly.GuestFunction): Promise<void> {
    if (leash) leash.mayWait = false;
    await WebAssembly.promising(section)();
    if (leash) leash.mayWait = true;
  }

  async function enter(): Promise<GuestEnding> {
    try {
      const instance = new WebAssembly.Instance(guest.module, imports);
      const { exports } = instance;
      if (guest.turns?.hasStart) await start(exports[START_EXPORT] as WebAssembly.GuestFunction);
      if (exports.memory instanceof WebAssembly.Memory) memory.attach(exports.memory);
      const isEnding = () => exitCode !== undefined || leash?.ended === true;
      tools = new CoreToolRunner(memory, functionTable(exports), isEnding, guest.state.notice);
      if (typeof exports._initialize === 'function') await WebAssembly.promising(exports._initialize)();
      const entry = ENTRIES.find((name) => typeof exports[name] === 'function') as (typeof ENTRIES)[number];
      const returned = await WebAssembly.promising(exports[entry] as WebAssembly.GuestFunction)();
      return { kind: 'exit', code: entry === 'run' ? Number(returned ?? 0) | 0 : 0 };
    } catch (error) {
      if (exitCode !== undefined) return { kind: 'exit', code: exitCode };
      return describeTrap(error);
    }
  }
}

/**
 * Only what the module imports, so that what it does not import need not exist. The names are the guest's: they are
 * looked up among our own only, and never reach a prototype.
 */
function linkImports(guest: CoreGuest, known: (module: string, name: string) => unknown): WebAssembly.Imports {
  const imports: WebAssembly.Imports = Object.create(null);
  for (const { module, name } of importsOf(guest.module)) {
    imports[module] ??= Object.create(null) as Record<string, unknown>;
    imports[module][name] = known(module, name) ?? missing(guest, module, name);
  }
  return imports;
}

type ModuleImports = ReturnType<typeof WebAssembly.Module.imports>;

const knownImports = new WeakMap<WebAssembly.Module, ModuleImports>();

/** Asked once for all guests of a module: the engine makes the list anew each time. */
function importsOf(module: WebAssembly.Module): ModuleImports {
  const known = knownImports.get(module) ?? WebAssembly.Module.imports(module);
  knownImports.set(module, known);
  return known;
}

const own = <T>(from: Readonly<Record<string, T>>, key: string): T | undefined =>
  Object.hasOwn(from, key) ? from[key] : undefined;

function missing(guest: CoreGuest, module: string, name: string): () => number | bigint {
  if (module === WASI_MODULE) return () => wasiErrno.NOSYS;
  const result = guest.unknownImports.find((found) => found.module === module && found.name === name)?.result;
  return () => (result === 'i64' ? BigInt(ENOSYS) : ENOSYS);
}
