import type { ReplayStart } from './journal-events.ts';
import type { Limits } from './limits.ts';
import type { TaskPolicy } from './policy-layers.ts';

/** A guest's standard output streams. */
export type StandardStream = 'stdout' | 'stderr';

/** What a guest posts on and on: bytes of a stream, characters of its replayLog. */
export type PostedKind = StandardStream | 'replayLog';

/** Where in `underway` the bytes of a stream are counted, and the characters of the replayLog. */
export const windowSlots: Readonly<Record<PostedKind, number>> = { stdout: 0, stderr: 1, replayLog: 2 };
export const WINDOW_BYTES = 3 * Int32Array.BYTES_PER_ELEMENT;

/** Posted output, or events of the replayLog, that the host has not taken; the guest waits beyond it, as it would for a full pipe. */
export const POST_WINDOW = 1024 * 1024;
/** Of what it has taken, the host tells so much at once: a word for each write would cost more than the write. */
export const ACK_BATCH = POST_WINDOW / 4;
/** What a guest on a shared thread may have written or posted beyond that until it can be made to wait. */
export const MAX_BUFFERED_POSTS = 16 * 1024 * 1024;
/** One message of posted output. */
export const MAX_OUTPUT_CHUNK = 64 * 1024;

/** Values of clocks and dice, in the order in which they are given. */
export interface RecordedValues {
  /** Milliseconds since the Unix epoch. */
  readonly wallMs: readonly number[];
  /** Nanoseconds of a clock that only rises. */
  readonly monotonicNs: readonly bigint[];
  readonly random: Uint8Array;
}

/** Of what a guest is started with, what many guests have in common: a thread that they share is told of it once. */
export interface SharedGuestTerms {
  readonly args: readonly string[];
  readonly limits: Limits;
  /** What the task lets a session ask for; the host asks again. */
  readonly mcpTask: TaskPolicy;
  /** Whether somebody can sit at the other end of the guest's user streams. */
  readonly servesStreams: boolean;
  readonly verbose: boolean;
}

/** The rest of it, which is its own. */
export interface GuestOwnSpec {
  readonly env: Readonly<Record<string, string>>;
  /** What its replayLog begins with; null: there is none. */
  readonly replay: ReplayStart | null;
  /** What clocks and dice give first; null: what the system gives. */
  readonly recordedValues: RecordedValues | null;
}

/** What a guest is started with. */
export interface GuestSpec extends SharedGuestTerms, GuestOwnSpec {}

/** The same for a guest with a thread of its own. */
export interface DedicatedSpec extends GuestSpec {
  /** How often each call of the table was made: the host looks when somebody asks, also while the guest computes. */
  readonly hostcallCounts: Float64Array<SharedArrayBuffer>;
  /** File descriptors of the process that the guest's output goes to; null: it is posted to the host thread. */
  readonly output: Readonly<Record<StandardStream, number | null>>;
  /** How much of each posted stream and of the replayLog the host has not taken yet; null where nothing is posted. */
  readonly underway: SharedArrayBuffer | null;
}

/** The first that a guest thread is told: plain data, nothing secret. */
export interface ThreadSpec {
  /** The only guest of a thread of its own, whose module follows when it is compiled; null: many come and go. */
  readonly guest: DedicatedSpec | null;
  /** Null: the thread has one guest. */
  readonly shared: SharedThreadSpec | null;
}

export interface SharedThreadSpec {
  /** Its first word is set when the guest that computes is to give way. */
  readonly turns: WebAssembly.Memory;
  /** The linear memory that all guests together may have. */
  readonly memoryBytes: number;
}

/** Of what a thread's `turns` has: is somebody to give way, and which guest had the thread last. */
export const preemptionWords = { yieldPoints: 0, holder: 1 } as const;

/** Guests of a thread whose counters are in one memory. */
export const COUNTER_GUESTS = 256;
