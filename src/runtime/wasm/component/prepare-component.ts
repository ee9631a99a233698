import { calls } from '../../abi/calls.ts';
import { ModuleError } from '../../abi/guest-module.ts';
import { servedWasi } from '../../guest/component/wasi/served.ts';
import type { Limits } from '../../port/limits.ts';
import type { Turns } from '../../port/preemption.ts';
import { type Bounds, PAGE_BYTES, writeBounds } from '../bound-memory.ts';
import { enablePromptTermination, engineCompile } from '../engine.ts';
import { ComponentCache, cacheKey, GATE_VERSION, JCO_VERSION, OWN_VERSION } from './component-cache.ts';
import type { CompiledComponent, Lane, Origin, PreparedComponent } from './component-stages.ts';

/** Prepares a component for execution under the limits of a task. */
export async function prepareComponent(
  bytes: Uint8Array,
  limits: Limits,
  host: CompileHost & { readonly preemptible: boolean },
): Promise<PreparedComponent> {
  const compiled = await compileOnce(bytes, limits.transpile_ms, host);
  // After compilation by jco, which would otherwise spend more time in the optimizer than running.
  enablePromptTermination();
  const { glue, imports, entry, lane, origin } = compiled;
  const bounds = shareLimits(compiled, limits);
  const bounded: Modules = new Map(
    [...compiled.coreModules].map(([name, module]) => [name, writeBounds(module, bounds)]),
  );
  const made = host.preemptible ? await compilePreemptible(bounded, lane) : await compileUnchanged(bounded);
  return { kind: 'component', glue, imports, entry, lane, origin, ...made };
}

type Modules = ReadonlyMap<string, Uint8Array>;
type Compiled = Pick<PreparedComponent, 'coreModules' | 'turns' | 'unshareable'>;

async function compileUnchanged(modules: Modules, unshareable: string | null = null): Promise<Compiled> {
  const compiled = [...modules].map(
    async ([name, module]) => [name, await engineCompile(module, 'a core module of the component')] as const,
  );
  return { coreModules: new Map(await Promise.all(compiled)), turns: new Map(), unshareable };
}

/** Adds yield points to all core modules, or to none if one module or the lane does not allow it. */
async function compilePreemptible(modules: Modules, lane: Lane): Promise<Compiled> {
  if (lane.kind === 'glue')
    return compileUnchanged(modules, `the component needs the glue code of jco, because ${lane.reason}`);
  const { addYieldPoints } = await import('../preemption/add-yield-points.ts');
  try {
    const turns = new Map<string, Turns>();
    const turned = new Map<string, Uint8Array>();
    for (const [name, module] of modules) {
      const found = addYieldPoints(module, false);
      turned.set(name, found?.bytes ?? module);
      if (found !== null) turns.set(name, { memory: found.memory, hasStart: found.hasStart });
    }
    return { ...(await compileUnchanged(turned)), turns };
  } catch (error) {
    if (!(error instanceof ModuleError)) throw error;
    return compileUnchanged(modules, `yield points cannot be added: ${error.message}`);
  }
}

/** Environment of the compilation of a component. */
export interface CompileHost {
  /** Directory of the cache; null: no cache. */
  readonly cacheDirectory: string | null;
  /** Receives notices for the user who runs the guest. */
  readonly onNotice: (text: string) => void;
  /** Aborts when no caller waits for the result. */
  readonly signal: AbortSignal;
  /** Delay of the notice that a compilation is in progress. @default 500 */
  readonly noticeableMs?: number;
}

const NOTICEABLE_MS = 500;

/** Parts of the cache key besides the component: the compiler and the available imports. */
const surroundings = () => [JCO_VERSION, OWN_VERSION, JSON.stringify([GATE_VERSION, calls, servedWasi])];

/** A compiled component, from the cache or compiled now and cached. */
export async function compileOnce(
  bytes: Uint8Array,
  timeoutMs: number,
  host: CompileHost,
): Promise<CompiledComponent & { readonly origin: Origin }> {
  const started = performance.now();
  const origin = (cached: boolean): Origin => ({ cached, ms: Math.round(performance.now() - started) });
  const cache = openCache(host);
  const key = cache && cacheKey(bytes, ...surroundings());
  const kept = key && cache.load(key);
  if (kept) return { ...kept, origin: origin(true) };

  const kind = cache ? 'once; the result is cached for later runs' : 'no cache, so on every run';
  const notify = () => host.onNotice(`compiling the component (${kind}) …`);
  const progress = setTimeout(notify, host.noticeableMs ?? NOTICEABLE_MS);
  try {
    // Loaded on a cache miss only.
    const { compileComponent } = await import('./compile-component.ts');
    const made = await compileComponent(bytes, timeoutMs, host.signal);
    const failure = key && cache.store(key, made);
    if (failure) host.onNotice(`cannot cache the compiled component in ${host.cacheDirectory}: ${failure}`);
    return { ...made, origin: origin(false) };
  } finally {
    clearTimeout(progress);
  }
}

function openCache({ cacheDirectory, onNotice }: CompileHost): ComponentCache | undefined {
  if (cacheDirectory === null) return undefined;
  const opened = ComponentCache.open(cacheDirectory);
  if (typeof opened !== 'string') return opened;
  onNotice(`the component cache ${cacheDirectory} is not used: ${opened}`);
  return undefined;
}

/**
 * Distributes the task's memory and table limits over the core modules of a component: each gets its initial size plus
 * an equal share of the rest.
 */
export function shareLimits(
  { memories, tables }: Pick<CompiledComponent, 'memories' | 'tables'>,
  limits: Limits,
): Bounds {
  const pages = room(
    memories,
    Math.floor(limits.memory_bytes / PAGE_BYTES),
    (sum) => `starts with ${sum * PAGE_BYTES} bytes of memory, limits.memory_bytes is ${limits.memory_bytes}`,
  );
  const elements = room(
    tables,
    limits.table_elements,
    (sum) => `has tables of ${sum} entries, limits.table_elements is ${limits.table_elements}`,
  );
  return { maxPages: (min) => min + pages, maxElements: (min) => min + elements };
}

/** Growth allowance of each memory or table. */
function room(starts: readonly number[], limit: number, complaint: (sum: number) => string): number {
  const sum = starts.reduce((total, min) => total + min, 0);
  if (sum > limit) throw new ModuleError(`the component ${complaint(sum)}`);
  return starts.length === 0 ? 0 : Math.floor((limit - sum) / starts.length);
}
