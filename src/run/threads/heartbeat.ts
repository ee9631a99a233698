import type { Worker } from 'node:worker_threads';

/** How often a thread is asked whether it still turns round. */
export const BEAT_MS = 50;
/** Of the time that a thread did not answer, what it must have computed to be held by a guest, not by a busy machine. */
const COMPUTING_SHARE = 0.5;

/** How long a thread that computes may take to tell how much: in a loop it does at once, in one long instruction never. */
const TELLING_MS = 250;

/** Processor time of a thread in milliseconds; null: not told. */
type ProcessorTime = () => Promise<number | null>;

/** Whether a thread still takes turns. Asked every {@link BEAT_MS}; it is the host's own delays that it must not mistake. */
export class Heartbeat {
  readonly #ping: (ping: number) => void;
  readonly #processorMs: ProcessorTime;
  #last = 0;
  /** Null: nothing is asked. The first answer is that the thread has booted. */
  #askedAt: number | null = Number.POSITIVE_INFINITY;
  #lookedAt = 0;
  /** What the thread had computed when it was first late. */
  #lateFrom: { readonly at: number; readonly computedMs: Promise<number | null> } | null = null;

  constructor(ping: (ping: number) => void, processorMs: ProcessorTime) {
    this.#ping = ping;
    this.#processorMs = processorMs;
  }

  answered(ping: number): void {
    if (ping !== this.#last) return;
    this.#askedAt = null;
    this.#lateFrom = null;
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
    this.#lateFrom ??= { at: now, computedMs: this.#processorMs() };
    return now - this.#askedAt;
  }

  /** Whether the thread computed while it did not answer. Where nobody can tell, it did. */
  async isHeld(now: number): Promise<boolean> {
    const from = this.#lateFrom;
    if (from === null) return false;
    const [before, after] = await Promise.all([from.computedMs, this.#processorMs()]);
    if (this.#lateFrom !== from) return false;
    return before === null || after === null || after - before >= (now - from.at) * COMPUTING_SHARE;
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
