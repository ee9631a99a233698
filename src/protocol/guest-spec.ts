import type { Limits } from './limits.ts';
import type { TaskPolicy } from './policy-layers.ts';

/** A guest's standard output streams. */
export type StandardStream = 'stdout' | 'stderr';

/** Where in `outputUnderway` the bytes of a stream are counted. */
export const underwayAt: Readonly<Record<StandardStream, number>> = { stdout: 0, stderr: 1 };
export const UNDERWAY_BYTES = 2 * Int32Array.BYTES_PER_ELEMENT;

/** Posted output that the host has not taken; the guest waits beyond it, as it would for a full pipe. */
export const MAX_UNDERWAY = 1024 * 1024;
/** One message of posted output. */
export const MAX_OUTPUT_CHUNK = 64 * 1024;

/** What a guest thread is started with: plain data, nothing secret. The module follows when it is compiled. */
export interface GuestSpec {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly limits: Limits;
  /** What the task lets a session ask for; the host asks again. */
  readonly mcpTask: TaskPolicy;
  readonly verbose: boolean;
  /** File descriptors of the process that the guest's output goes to; null: it is posted to the host thread. */
  readonly output: Readonly<Record<StandardStream, number | null>>;
  /** How many bytes of each posted stream the host has not taken yet; null where none is posted. */
  readonly outputUnderway: SharedArrayBuffer | null;
}
