import type { TapeStart } from './journal-events.ts';
import type { Limits } from './limits.ts';
import type { TaskPolicy } from './policy-layers.ts';

/** A guest's standard output streams. */
export type StandardStream = 'stdout' | 'stderr';

/** What a guest posts on and on: bytes of a stream, characters of its tape. */
export type PostedKind = StandardStream | 'tape';

/** Where in `underway` the bytes of a stream are counted, and the characters of the tape. */
export const underwayAt: Readonly<Record<PostedKind, number>> = { stdout: 0, stderr: 1, tape: 2 };
export const UNDERWAY_BYTES = 3 * Int32Array.BYTES_PER_ELEMENT;

/** Posted output, or events of the tape, that the host has not taken; the guest waits beyond it, as it would for a full pipe. */
export const MAX_UNDERWAY = 1024 * 1024;
/** Of what it has taken, the host tells so much at once: a word for each write would cost more than the write. */
export const TOLD_AT_ONCE = MAX_UNDERWAY / 4;
/** What a guest on a shared thread may have written or posted beyond that until it can be made to wait. */
export const MAX_OWED = 16 * 1024 * 1024;
/** One message of posted output. */
export const MAX_OUTPUT_CHUNK = 64 * 1024;

/** Values of clocks and dice, in the order in which they are given. */
export interface RecalledValues {
  /** Milliseconds since the Unix epoch. */
  readonly wallMs: readonly number[];
  /** Nanoseconds of a clock that only rises. */
  readonly monotonicNs: readonly bigint[];
  readonly random: Uint8Array;
}

/** Of what a guest is started with, what many guests have in common: a thread that they share is told of it once. */
export interface GuestTerms {
  readonly args: readonly string[];
  readonly limits: Limits;
  /** What the task lets a session ask for; the host asks again. */
  readonly mcpTask: TaskPolicy;
  /** Whether somebody can sit at the other end of the guest's user streams. */
  readonly servesStreams: boolean;
  readonly verbose: boolean;
}

/** The rest of it, which is its own. */
export interface GuestOwn {
  readonly env: Readonly<Record<string, string>>;
  /** What its tape begins with; null: there is none. */
  readonly tape: TapeStart | null;
  /** What clocks and dice give first; null: what the system gives. */
  readonly chance: RecalledValues | null;
}

/** What a guest is started with. */
export interface GuestSpec extends GuestTerms, GuestOwn {}

/** The same for a guest with a thread of its own. */
export interface AloneSpec extends GuestSpec {
  /** How often each call of the table was made: the host looks when somebody asks, also while the guest computes. */
  readonly hostcallCounts: Float64Array<SharedArrayBuffer>;
  /** File descriptors of the process that the guest's output goes to; null: it is posted to the host thread. */
  readonly output: Readonly<Record<StandardStream, number | null>>;
  /** How much of each posted stream and of the tape the host has not taken yet; null where nothing is posted. */
  readonly underway: SharedArrayBuffer | null;
}
