import type { Turns } from '../../port/preemption.ts';

/**
 * Whether the core modules of a component call our functions directly. `glue`: they go through the code that jco
 * generated, because the binary does not prove that what looks like our import is ours.
 */
export type Lane = { readonly kind: 'fast' } | { readonly kind: 'glue'; readonly reason: string };

/** Where the glue comes from, and how long that took. */
export interface Origin {
  readonly cached: boolean;
  readonly ms: number;
}

/** All that is worked out about a component once, whatever the limits it will run with. */
export interface CompiledComponent {
  /** What jco generated, refined. */
  readonly glue: string;
  /** By the names under which the glue asks for them; their memories are not bounded yet. */
  readonly coreModules: ReadonlyMap<string, Uint8Array>;
  readonly imports: readonly string[];
  readonly entry: string;
  readonly lane: Lane;
  /** What each memory of each core instance starts with, in pages. */
  readonly memories: readonly number[];
  /** What each table of each core instance starts with, in entries. */
  readonly tables: readonly number[];
}

/** A component that may run: admitted, transpiled, bounded and compiled. Plain data and modules, so it can be posted. */
export interface PreparedComponent {
  readonly kind: 'component';
  /** The JavaScript that jco generated (`instantiate(getCoreModule, imports, instantiateCore)`), verified. */
  readonly glue: string;
  /** By the names under which the glue asks for them. */
  readonly coreModules: ReadonlyMap<string, WebAssembly.Module>;
  /** What the component imports, with versions: `spear:host/cchat@1.0.0`, `wasi:cli/stdout@0.2.3`, … */
  readonly imports: readonly string[];
  /** The export to enter: `run`, or the full name of `wasi:cli/run`. */
  readonly entry: string;
  readonly lane: Lane;
  readonly origin: Origin;
  /** Of those core modules that give way. */
  readonly turns: ReadonlyMap<string, Turns>;
  /** Why it must not share a thread; null: it may, if it gives way. */
  readonly unshareable: string | null;
}

/** One line for whoever wants to know how a component runs. */
export function describeComponent({ lane, origin }: Pick<PreparedComponent, 'lane' | 'origin'>): string {
  const how = lane.kind === 'fast' ? 'fast lane' : `jco glue, because ${lane.reason}`;
  return `component: ${how}; ${origin.cached ? 'cached' : 'compiled now'}, ${origin.ms} ms`;
}
