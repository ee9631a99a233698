import type { Worker } from 'node:worker_threads';

/** How often a thread is asked whether it still turns round. */
export const BEAT_MS = 50;
/** Of the time that a thread did not answer, what it must have computed to be held by a guest, not by a busy machine. */
const COMPUTING_SHARE = 0.5;
/** A thread that used less than this share of a processor for so many times `limits.turn_ms` is blocked, not slow. */
const BLOCKED_SHARE = 0.01;
const BLOCKED_TURNS = 10;

/** How long a thread that computes may take to tell how much: in a loop it does at once, in one long instruction never. */
const TELLING_MS = 250;

/** Processor time of a thread in milliseconds; null: not told. */
type ProcessorTime = () => Promise<number | null>;

interface Sample {
  readonly at: number;
  readonly computedMs: Promise<number | null>;
}

/** Whether a thread still takes turns. Asked every {@link BEAT_MS}; it is the host's own delays that it must not mistake. */
export class Heartbeat {
  readonly #ping: (ping: number) => void;
  readonly #processorMs: ProcessorTime;
  #last = 0;
  /** Null: nothing is asked. The first answer is that the thread has booted. */
  #askedAt: number | null = Number.POSITIVE_INFINITY;
  #lookedAt = 0;
  /** What the thread had computed when it was first late. */
  #lateFrom: Sample | null = null;
  /** The same since the host's own timer was last late. */
  #onTimeFrom: Sample | null = null;
  /** When the second ping was sent; null: it was not. */
  #secondAt: number | null = null;

  constructor(ping: (ping: number) => void, processorMs: ProcessorTime) {
    this.#ping = ping;
    this.#processorMs = processorMs;
  }

  /** Whether the thread has not answered the last ping by the next beat. */
  get isSilent(): boolean {
    return this.#lateFrom !== null;
  }

  answered(ping: number): void {
    const isFirstOfTwo = this.#secondAt !== null && ping === this.#last - 1;
    if (ping !== this.#last && !isFirstOfTwo) return;
    this.#askedAt = null;
    this.#lateFrom = null;
    this.#onTimeFrom = null;
    this.#secondAt = null;
  }

  /** Asks, and tells for how long nothing came: 0 if that is no more than the way there and back. */
  beat(now: number): number {
    const hostWasLate = Math.max(0, now - this.#lookedAt - 2 * BEAT_MS);
    this.#lookedAt = now;
    if (this.#askedAt === Number.POSITIVE_INFINITY) return 0;
    if (this.#askedAt === null) {
      this.#askedAt = now;
      this.#ping(++this.#last);
      return 0;
    }
    this.#askedAt += hostWasLate;
    if (hostWasLate > 0) this.#onTimeFrom = null;
    if (this.#onTimeFrom === null) {
      this.#onTimeFrom = { at: now, computedMs: this.#processorMs() };
      this.#secondAt = null;
    }
    this.#lateFrom ??= this.#onTimeFrom;
    return now - this.#askedAt;
  }

  /**
   * Whether a guest holds the thread: the thread computed while it did not answer, or is blocked. If
   * its processor time is unknown, it counts as computing.
   */
  async isHeld(now: number, turnMs: number): Promise<boolean> {
    const [late, onTime] = [this.#lateFrom, this.#onTimeFrom];
    if (late === null || onTime === null || late.at === now) return false;
    const [before, beforeOnTime, after] = await Promise.all([late.computedMs, onTime.computedMs, this.#processorMs()]);
    if (this.#lateFrom !== late) return false;
    if (before === null || beforeOnTime === null || after === null) return true;
    if (after - before >= (now - late.at) * COMPUTING_SHARE) return true;
    return this.#onTimeFrom === onTime && this.#isBlocked(now, turnMs, onTime.at, after - beforeOnTime);
  }

  /** Sends a second ping before it says so: the answer to the first may have been lost in the host's own delays. */
  #isBlocked(now: number, turnMs: number, from: number, computedMs: number): boolean {
    const forMs = now - from;
    if (forMs < BLOCKED_TURNS * turnMs || computedMs > forMs * BLOCKED_SHARE) return false;
    if (this.#secondAt !== null) return now - this.#secondAt >= turnMs;
    this.#secondAt = now;
    this.#ping(++this.#last);
    return false;
  }
}

const MICROSECONDS = 1000;

/** `cpuUsage` came with Node 24.6; it answers while the thread computes. */
export function processorTime(worker: Worker): ProcessorTime {
  const { cpuUsage } = worker as { cpuUsage?: () => Promise<{ readonly user: number; readonly system: number }> };
  if (cpuUsage === undefined) return async () => null;
  return () =>
    new Promise((resolve) => {
      const late = setTimeout(() => resolve(null), TELLING_MS);
      const tell = (ms: number | null) => {
        clearTimeout(late);
        resolve(ms);
      };
      cpuUsage.call(worker).then(
        ({ user, system }) => tell((user + system) / MICROSECONDS),
        () => tell(null),
      );
    });
}
