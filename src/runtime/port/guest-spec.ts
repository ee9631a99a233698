import { calls } from '../abi/calls.ts';
import type { ReplayStart } from './journal-events.ts';
import type { Limits } from './limits.ts';
import type { TaskPolicy } from './policy-layers.ts';

export type StandardStream = 'stdout' | 'stderr';

/** What a guest posts without waiting for a reply: bytes of a stream, characters of its journal events. */
export type PostedKind = StandardStream | 'journal';

/** Index of each kind in the shared counters of unacknowledged data. */
export const windowSlots: Readonly<Record<PostedKind, number>> = { stdout: 0, stderr: 1, journal: 2 };
export const WINDOW_BYTES = 3 * Int32Array.BYTES_PER_ELEMENT;

/** Posted output or journal events that the host has not acknowledged; beyond it the guest waits, as for a full pipe. */
export const POST_WINDOW = 1024 * 1024;
/** The host acknowledges in batches: one message per write would cost more than the write. */
export const ACK_BATCH = POST_WINDOW / 4;
/** What a guest on a shared thread may write or post beyond the window until it reaches a point where it can wait. */
export const MAX_BUFFERED_POSTS = 16 * 1024 * 1024;
/** One message of posted output. */
export const MAX_OUTPUT_CHUNK = 64 * 1024;

/** Recorded values of clocks and entropy, in the order in which they are returned. */
export interface RecordedValues {
  /** Milliseconds since the Unix epoch. */
  readonly wallMs: readonly number[];
  /** Nanoseconds of the monotonic clock. */
  readonly monotonicNs: readonly bigint[];
  readonly random: Uint8Array;
}

/** Start parameters that many guests have in common: a shared thread receives them once. */
export interface SharedGuestTerms {
  readonly args: readonly string[];
  readonly limits: Limits;
  /** What the task lets a session ask for; the host checks again. */
  readonly mcpTask: TaskPolicy;
  /** Whether clients can connect to the guest's user streams. */
  readonly servesStreams: boolean;
  readonly verbose: boolean;
}

/** Start parameters of one guest alone. */
export interface GuestOwnSpec {
  readonly env: Readonly<Record<string, string>>;
  /** The history to replay; null: the run has no journal. */
  readonly replay: ReplayStart | null;
  /** What clocks and entropy return first; null: those of the system. */
  readonly recordedValues: RecordedValues | null;
}

export interface GuestSpec extends SharedGuestTerms, GuestOwnSpec {}

/** Start parameters of a guest with a dedicated thread. */
export interface DedicatedSpec extends GuestSpec {
  /** Calls made so far, by row of the ABI table; the host reads them at any time, also while the guest computes. */
  readonly hostcallCounts: Float64Array<SharedArrayBuffer>;
  /** File descriptors of the process that the guest's output goes to; null: posted to the host thread. */
  readonly output: Readonly<Record<StandardStream, number | null>>;
  /** Unacknowledged bytes of each posted stream and of the journal events; null: nothing is posted. */
  readonly unacknowledged: SharedArrayBuffer | null;
}

/** Words of a shared thread's preemption memory: whether the running guest is to yield, and which guest ran last. */
export const preemptionWords = { yieldRequested: 0, holder: 1 } as const;

/** Counters of one guest: the calls of each row of the ABI table, then the milliseconds it computed. */
export const COUNTERS = calls.length + 1;
export const COMPUTED_MS_INDEX = calls.length;
/** Guests of a thread whose counters are in one memory. */
export const COUNTER_GUESTS = 256;
