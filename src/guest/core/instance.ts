import { wasiErrno } from '../../abi/errno.ts';
import { ENTRIES, NO_FUNCTION_TABLE, WASI_MODULE } from '../../abi/guest-module.ts';
import { GuestMemory } from '../../abi/memory.ts';
import { hostcalls } from '../../hostcalls/all.ts';
import type { GuestState } from '../../hostcalls/guest-state.ts';
import type { Output } from '../../hostcalls/output.ts';
import type { GuestEnding, UnknownImport } from '../../protocol/port.ts';
import { namedCounts, newCounts } from '../binding/hostcall-counts.ts';
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
  /** Gets the way to read the hostcalls made so far, before the first is made. */
  readonly counting?: (read: () => GuestRun['hostcalls']) => void;
}

export interface GuestRun {
  readonly ending: GuestEnding;
  readonly hostcalls: Readonly<Record<string, number>>;
}

const ENOSYS = -38;

/** Links, starts and runs a core module to its end. */
export async function runCore(guest: CoreGuest): Promise<GuestRun> {
  const memory = new GuestMemory();
  const counts = newCounts();
  guest.counting?.(() => namedCounts(counts));
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
  const imports = linkImports(guest, {
    spear: bindCoreImports(hostcalls, { guest: state, memory, counts }),
    [WASI_MODULE]: preview1({ ...guest, memory, exit }),
    env: { abort: abortImport(memory, guest.output) },
  });

  const ending = judge(await enter());
  state.fds.closeAll();
  return { ending, hostcalls: namedCounts(counts) };

  /** A guest rarely notices that the model's calls of its tools failed: a run without tools must not look like a good one. */
  function judge(ending: GuestEnding): GuestEnding {
    if (!tools?.unreachable) return ending;
    const message = `its tools could not be called: ${NO_FUNCTION_TABLE}`;
    if (ending.kind === 'exit' && ending.code === 0) return { kind: 'load_failed', message };
    guest.state.notice(`the guest: ${message}`);
    return ending;
  }

  async function enter(): Promise<GuestEnding> {
    try {
      const instance = new WebAssembly.Instance(guest.module, imports);
      const { exports } = instance;
      if (exports.memory instanceof WebAssembly.Memory) memory.attach(exports.memory);
      tools = new CoreToolRunner(memory, functionTable(exports), () => exitCode !== undefined, guest.state.notice);
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
function linkImports(guest: CoreGuest, known: WebAssembly.Imports): WebAssembly.Imports {
  const imports: WebAssembly.Imports = Object.create(null);
  for (const { module, name } of WebAssembly.Module.imports(guest.module)) {
    imports[module] ??= Object.create(null) as Record<string, unknown>;
    imports[module][name] = own(own(known, module), name) ?? missing(guest, module, name);
  }
  return imports;
}

const own = <T>(from: Readonly<Record<string, T>> | undefined, key: string): T | undefined =>
  from && Object.hasOwn(from, key) ? from[key] : undefined;

function missing(guest: CoreGuest, module: string, name: string): () => number | bigint {
  if (module === WASI_MODULE) return () => wasiErrno.NOSYS;
  const result = guest.unknownImports.find((found) => found.module === module && found.name === name)?.result;
  return () => (result === 'i64' ? BigInt(ENOSYS) : ENOSYS);
}
