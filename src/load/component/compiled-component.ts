import type { Lane } from './prepared.ts';

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
