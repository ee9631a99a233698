import { ModuleError } from '../../abi/guest-module.ts';
import type { Limits } from '../../port/limits.ts';
import type { Turns } from '../../port/preemption.ts';
import { writeBounds } from '../bound-memory.ts';
import { endPromptly } from '../prompt-ending.ts';
import { type CompileHost, compileOnce } from './compile-once.ts';
import type { Lane, PreparedComponent } from './component-stages.ts';
import { shareLimits } from './memory-share.ts';

/** From the bytes of a component to what may run under the limits of a task. */
export async function prepareComponent(
  bytes: Uint8Array,
  limits: Limits,
  host: CompileHost & { readonly preemptible: boolean },
): Promise<PreparedComponent> {
  const compiled = await compileOnce(bytes, limits.transpile_ms, host);
  // Not before: jco would be optimized for longer than it runs.
  endPromptly();
  const { glue, imports, entry, lane, origin } = compiled;
  const bounds = shareLimits(compiled, limits);
  const bounded: Modules = new Map(
    [...compiled.coreModules].map(([name, module]) => [name, writeBounds(module, bounds)]),
  );
  const made = host.preemptible ? await compileWithTurns(bounded, lane) : await compileAsTheyAre(bounded);
  return { kind: 'component', glue, imports, entry, lane, origin, ...made };
}

type Modules = ReadonlyMap<string, Uint8Array>;
type Compiled = Pick<PreparedComponent, 'coreModules' | 'turns' | 'unshareable'>;

async function compileAsTheyAre(modules: Modules, unshareable: string | null = null): Promise<Compiled> {
  const compiled = [...modules].map(async ([name, module]) => [name, await engineCompile(module)] as const);
  return { coreModules: new Map(await Promise.all(compiled)), turns: new Map(), unshareable };
}

/** What cannot be made to give way, whole, is left as it is. */
async function compileWithTurns(modules: Modules, lane: Lane): Promise<Compiled> {
  if (lane.kind === 'glue')
    return compileAsTheyAre(modules, `the component needs the glue code of jco, because ${lane.reason}`);
  const { withTurns } = await import('../preemption/with-turns.ts');
  try {
    const turns = new Map<string, Turns>();
    const turned = new Map<string, Uint8Array>();
    for (const [name, module] of modules) {
      const found = withTurns(module, false);
      turned.set(name, found?.bytes ?? module);
      if (found !== null) turns.set(name, { memory: found.memory, hasStart: found.hasStart });
    }
    return { ...(await compileAsTheyAre(turned)), turns };
  } catch (error) {
    if (!(error instanceof ModuleError)) throw error;
    return compileAsTheyAre(modules, `yield points cannot be added: ${error.message}`);
  }
}

async function engineCompile(bytes: Uint8Array): Promise<WebAssembly.Module> {
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    const reason = (error as Error).message.replace(/^WebAssembly\.compile\(\): /, '');
    throw new ModuleError(`a core module of the component does not compile: ${reason}`);
  }
}
