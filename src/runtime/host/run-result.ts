import type { JsonObject } from '../../base/json.ts';
import type { RunDegradation } from '../../server/records/run.ts';
import type { ModuleProblem } from '../abi/guest-module.ts';

export type RunReason =
  | 'exit'
  | 'deadline'
  | 'trap'
  | 'interrupted'
  | 'memory'
  /** A server of `mcp.required_server_ids` was not available at the start. */
  | 'required_server'
  | 'module'
  | 'internal'
  /** The shared thread of the guest is gone, whether this guest or another blocked it; the run may resume from its journal. */
  | 'lost'
  /** The run waits for something that may take long, and resumes from its journal when that arrives. */
  | 'parked'
  /** The journal is full or cannot be written. */
  | 'journal'
  /** Replay detected nondeterminism: the guest did something other than recorded. */
  | 'diverged';

/** The kind of thread that a guest had; `none`: no thread had room, and it never started. `why` it could not share one. */
export interface Isolation {
  readonly kind: 'thread' | 'shared' | 'none';
  readonly why: string | null;
}

export interface RunResult {
  readonly reason: RunReason;
  /** The guest's own exit code; null unless the reason is `exit`. */
  readonly exitCode: number | null;
  /** What went wrong, for a reader; null if nothing did. */
  readonly message: string | null;
  /** Code of the system error that ended the run, such as `EMFILE`; null: none. */
  readonly systemError: string | null;
  /** Problem of the module with a known remedy; null: none. */
  readonly problem: ModuleProblem | null;
  /** Frames of the guest, innermost first; empty unless it trapped. */
  readonly stack: string;
  readonly isolation: Isolation;
  readonly durations: { readonly loadMs: number; readonly runMs: number; readonly totalMs: number };
  /** Number of calls, by hostcall. */
  readonly hostcalls: Readonly<Record<string, number>>;
  readonly chat: {
    readonly sends: number;
    readonly iterations: number;
    readonly toolCalls: number;
    /** Token usage summed over the model's responses, by the provider's names (`prompt_tokens`). */
    readonly usage: JsonObject;
  };
  /** Trace of the run's spans; null: there are none. */
  readonly traceId: string | null;
  readonly droppedLogLines: number;
  /** MCP servers whose tools the run did not have, each with the reason; empty: it had all. */
  readonly degraded: readonly RunDegradation[];
}

/** Why a guest ended without a report of its own. */
export interface GuestLoss {
  readonly reason: Extract<RunReason, 'internal' | 'memory' | 'lost'>;
  readonly message: string;
  /** Code of the system error that caused the loss. @default none */
  readonly systemError?: string | null;
  /** Whether the run must resume on a dedicated thread. @default false */
  readonly needsOwnThread?: true;
}
