import type { Limits } from './limits.ts';
import type { TaskPolicy } from './policy-layers.ts';

/** A guest's standard output streams. */
export type StandardStream = 'stdout' | 'stderr';

/** What a guest thread is started with: plain data, nothing secret. The module follows when it is compiled. */
export interface GuestSpec {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly limits: Limits;
  /** What the task lets a session ask for; the host asks again. */
  readonly mcpTask: TaskPolicy;
  readonly verbose: boolean;
  /** File descriptors of the process that the guest's output goes to. */
  readonly output: Readonly<Record<StandardStream, number>>;
}
