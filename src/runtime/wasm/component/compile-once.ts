import { calls } from '../../abi/calls.ts';
import { servedWasi } from '../../guest/component/wasi/served.ts';
import { ComponentCache, cacheKey } from './component-cache.ts';
import type { CompiledComponent, Origin } from './component-stages.ts';
import { GATE_VERSION, JCO_VERSION, OWN_VERSION } from './versions.ts';

/** What surrounds the compilation of a component. */
export interface CompileHost {
  /** Where compiled components are kept; null: nowhere. */
  readonly cacheDirectory: string | null;
  /** Something the person who runs the guest should know. */
  readonly onNotice: (text: string) => void;
  /** Nobody waits for the result any more. */
  readonly signal: AbortSignal;
  /** After so long the person is told why nothing happens. @default 500 */
  readonly noticeableMs?: number;
}

const NOTICEABLE_MS = 500;

/** What the result depends on beside the component: who compiles it, and what is there for it to import. */
const surroundings = () => [JCO_VERSION, OWN_VERSION, JSON.stringify([GATE_VERSION, calls, servedWasi])];

/** A compiled component: from the cache, or made now and kept there. */
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
  const tell = () => host.onNotice(`compiling the component (${kind}) …`);
  const progress = setTimeout(tell, host.noticeableMs ?? NOTICEABLE_MS);
  try {
    // Loaded only for what is not in the cache: most runs need none of it.
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
