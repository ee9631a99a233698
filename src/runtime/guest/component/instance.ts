import { errno } from '../../abi/errno.ts';
import { ModuleError } from '../../abi/guest-module.ts';
import type { ComponentStart, GuestEnding } from '../../port/port.ts';
import { PREEMPTION_MODULE } from '../../port/preemption.ts';
import type { CoreGuest } from '../core/instance.ts';
import type { GuestState, ToolRunner } from '../hostcalls/guest-state.ts';
import type { HostcallTable } from '../hostcalls/table.ts';
import { describeTrap, throwTrap } from '../trap.ts';
import { hostInterface, withoutVersion } from './calls.ts';
import { instantiateInFastLane } from './fast-lane.ts';
import { type ComponentExports, evaluateGlue, glueInterface } from './glue.ts';
import { preview2 } from './wasi/preview2.ts';
import type { StdinSource } from './wasi/streams.ts';

export interface ComponentGuest extends Omit<CoreGuest, 'readStdin'> {
  /** The table for a binding that receives texts as JavaScript strings. */
  readonly textTable: HostcallTable;
}

type Entry = () => Promise<unknown>;

const SUSPENDED_AT_START =
  'a blocking hostcall was made while the component was instantiated, where the guest cannot be suspended; ' +
  'move the call into the entry function (AssemblyScript: build with --exportStart _initialize)';

/** Links, starts and runs a component to its end. */
export async function runComponent(
  guest: ComponentGuest,
  component: ComponentStart,
  stdin: StdinSource,
): Promise<GuestEnding> {
  const { counts, state } = guest;
  let exitCode: number | undefined;
  const exit = (code: number): never => {
    exitCode = code;
    return throwTrap();
  };
  state.runTool = handsBack(state);

  const ending = await enter();
  state.fds.closeAll();
  return ending;

  async function enter(): Promise<GuestEnding> {
    let run: Entry;
    try {
      run = entryOf(await instantiate(), component.entry);
    } catch (error) {
      return exitCode === undefined ? describeFailedStart(error) : { kind: 'exit', code: exitCode };
    }
    try {
      await run();
      return { kind: 'exit', code: 0 };
    } catch (error) {
      if (exitCode !== undefined) return { kind: 'exit', code: exitCode };
      return error === undefined ? { kind: 'exit', code: 1 } : describeTrap(error); // jco throws what `err` holds
    }
  }

  async function instantiate(): Promise<ComponentExports> {
    const { table, scope } = guest;
    const newMemory = () => guest.newMemory();
    const lane = { table, newMemory, guest: state, counts, scope, preemptionImports: preemptionImports() };
    return evaluateGlue(component.glue)(coreModule, linkImports(), (module, imports) =>
      component.fastLane ? instantiateInFastLane(lane, module, imports) : new WebAssembly.Instance(module, imports),
    );
  }

  function preemptionImports(): (module: WebAssembly.Module) => WebAssembly.Imports {
    const turns = new Map([...component.turns].map(([name, found]) => [coreModule(name), found]));
    return (module) => {
      const found = turns.get(module);
      return found === undefined ? {} : { [PREEMPTION_MODULE]: guest.yieldPoints.imports(found.memory) };
    };
  }

  function coreModule(name: string): WebAssembly.Module {
    const module = component.coreModules.get(name);
    if (!module) throw new ModuleError(`the component has no core module ${name}`);
    return module;
  }

  /** The imports of the glue are fully functional: they serve what the fast lane does not. */
  function linkImports(): Record<string, unknown> {
    const { args, env, output, textTable } = guest;
    const wasi = preview2({
      args,
      env,
      output,
      sources: state.sources,
      stdin,
      exit,
      maxListBytes: state.limits.memory_bytes,
      scope: guest.scope,
    });
    const served: Record<string, unknown> = Object.create(null);
    for (const name of component.imports) {
      const ours = hostInterface(name);
      const bare = withoutVersion(name);
      const found = ours === undefined ? own(wasi, bare) : glueInterface(textTable, state, counts, ours);
      served[name] = found;
      served[bare] = found;
    }
    return served;
  }
}

/** Names come from the guest, so prototypes are not consulted. */
const own = (from: Readonly<Record<string, object>>, key: string): object | undefined =>
  Object.hasOwn(from, key) ? from[key] : undefined;

function entryOf(exports: ComponentExports, name: string): Entry {
  const entry = exports[name];
  if (typeof entry === 'function') return entry as Entry;
  const inside = (entry as { run?: unknown } | undefined)?.run;
  if (typeof inside === 'function') return inside as Entry;
  throw new ModuleError(`the component does not export its entry function ${name}`);
}

function describeFailedStart(error: unknown): GuestEnding {
  if (error instanceof ModuleError) return { kind: 'load_failed', message: error.message };
  const suspended = error instanceof Error && error.message.startsWith('cannot block a synchronous task');
  return suspended ? { kind: 'load_failed', message: SUSPENDED_AT_START } : describeTrap(error);
}

/** A component cannot be entered while it waits in an import, so the host cannot call its tools. */
function handsBack(guest: Pick<GuestState, 'notice'>): ToolRunner {
  return async () => {
    guest.notice(
      'the host cannot call the tools of a component: send with HAND_BACK (4), otherwise these tool calls fail',
    );
    return { rc: -errno.EIO, content: '' };
  };
}
