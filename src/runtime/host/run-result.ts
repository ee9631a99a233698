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
  /** The thread that it shared is gone, through no fault of its own or because it held it: it may go on from its journal. */
  | 'lost'
  /** It waits for something that may take long, and goes on from its journal when that comes. */
  | 'parked'
  /** The journal has no more room, or cannot be written. */
  | 'journal'
  /** The replayed guest did something else than what was recorded. */
  | 'diverged';

/** Where a guest ran; `none`: no thread had room, and it never started. `why`: what was in the way of a shared thread. */
export interface Isolation {
  readonly kind: 'thread' | 'shared' | 'none';
  readonly why: string | null;
}

export interface RunResult {
  readonly reason: RunReason;
  /** The guest's own exit code; null unless the reason is `exit`. */
  readonly exitCode: number | null;
  /** What went wrong, for a person; null if nothing did. */
  readonly message: string | null;
  /** Code of the system error that ended the run, such as `EMFILE`; null: none did. */
  readonly systemError: string | null;
  /** What the module has wrong, where a remedy is known; null otherwise. */
  readonly problem: ModuleProblem | null;
  /** Frames of the guest, innermost first; empty unless it trapped. */
  readonly stack: string;
  /** Where the guest ran: on a thread of its own or on one that it shared, and what was in the way of sharing. */
  readonly isolation: Isolation;
  readonly durations: { readonly loadMs: number; readonly runMs: number; readonly totalMs: number };
  /** How often the guest made each hostcall. */
  readonly hostcalls: Readonly<Record<string, number>>;
  readonly chat: {
    readonly sends: number;
    readonly iterations: number;
    readonly toolCalls: number;
    /** Sums of what the model's answers say, by the provider's own names (`prompt_tokens`). */
    readonly usage: JsonObject;
  };
  /** The trace of its spans; null: there are none. */
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
