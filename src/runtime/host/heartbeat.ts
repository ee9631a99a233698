import type { Worker } from 'node:worker_threads';

/** Interval of pings to a thread. */
export const BEAT_MS = 50;
/** Share of its silent time that a thread must have computed for a guest, not a busy machine, to be the cause. */
const COMPUTING_SHARE = 0.5;
/** A silent thread that used less than this share of a processor for BLOCKED_TURNS times `limits.turn_ms` is blocked. */
const BLOCKED_SHARE = 0.01;
const BLOCKED_TURNS = 10;

/** Timeout of `cpuUsage`: a thread in a loop answers at once, a thread in one long instruction never. */
const USAGE_MS = 250;

/** Processor time of a thread in milliseconds; null: unknown. */
type ProcessorTime = () => Promise<number | null>;

interface Sample {
  readonly at: number;
  readonly computedMs: Promise<number | null>;
}

/**
 * Detects that a guest blocks its thread. The thread is pinged every {@link BEAT_MS}. Delays of the host thread itself are
 * subtracted, so that a busy host does not look like a silent guest thread.
 */
export class Heartbeat {
  readonly #ping: (ping: number) => void;
  readonly #processorMs: ProcessorTime;
  #lastPing = 0;
  /** Time of the oldest unanswered ping; null: none is pending. The thread's first pong says that it has booted. */
  #pingedAt: number | null = Number.POSITIVE_INFINITY;
  #lastBeatAt = 0;
  /** Processor time when the thread was first late. */
  #lateFrom: Sample | null = null;
  /** Processor time since the host's own timer was last late. */
  #onTimeFrom: Sample | null = null;
  /** Time of the second ping; null: none was sent. */
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
    const isFirstOfTwo = this.#secondAt !== null && ping === this.#lastPing - 1;
    if (ping !== this.#lastPing && !isFirstOfTwo) return;
    this.#pingedAt = null;
    this.#lateFrom = null;
    this.#onTimeFrom = null;
    this.#secondAt = null;
  }

  /** Sends a ping unless one is pending. Returns how long the thread has been silent; 0 if no pong is late. */
  beat(now: number): number {
    const hostWasLate = Math.max(0, now - this.#lastBeatAt - 2 * BEAT_MS);
    this.#lastBeatAt = now;
    if (this.#pingedAt === Number.POSITIVE_INFINITY) return 0;
    if (this.#pingedAt === null) {
      this.#pingedAt = now;
      this.#ping(++this.#lastPing);
      return 0;
    }
    this.#pingedAt += hostWasLate;
    if (hostWasLate > 0) this.#onTimeFrom = null;
    if (this.#onTimeFrom === null) {
      this.#onTimeFrom = { at: now, computedMs: this.#processorMs() };
      this.#secondAt = null;
    }
    this.#lateFrom ??= this.#onTimeFrom;
    return now - this.#pingedAt;
  }

  /**
   * Whether a guest blocks the thread: the thread computed while it was silent, or used no processor time at all. A
   * thread with unknown processor time counts as computing.
   */
  async isBlocked(now: number, turnMs: number): Promise<boolean> {
    const [late, onTime] = [this.#lateFrom, this.#onTimeFrom];
    if (late === null || onTime === null || late.at === now) return false;
    const [before, beforeOnTime, after] = await Promise.all([late.computedMs, onTime.computedMs, this.#processorMs()]);
    if (this.#lateFrom !== late) return false;
    if (before === null || beforeOnTime === null || after === null) return true;
    if (after - before >= (now - late.at) * COMPUTING_SHARE) return true;
    return this.#onTimeFrom === onTime && this.#isStopped(now, turnMs, onTime.at, after - beforeOnTime);
  }

  /** Sends a second ping first: the host's own delays may hide the pong to the first. */
  #isStopped(now: number, turnMs: number, from: number, computedMs: number): boolean {
    const forMs = now - from;
    if (forMs < BLOCKED_TURNS * turnMs || computedMs > forMs * BLOCKED_SHARE) return false;
    if (this.#secondAt !== null) return now - this.#secondAt >= turnMs;
    this.#secondAt = now;
    this.#ping(++this.#lastPing);
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
      const late = setTimeout(() => resolve(null), USAGE_MS);
      const settle = (ms: number | null) => {
        clearTimeout(late);
        resolve(ms);
      };
      cpuUsage.call(worker).then(
        ({ user, system }) => settle((user + system) / MICROSECONDS),
        () => settle(null),
      );
    });
}
