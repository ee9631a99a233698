/** Delays that double from `firstMs` up to `maxMs`. */
export interface Backoff {
  readonly firstMs: number;
  readonly maxMs: number;
}

export interface RandomSource {
  /** In [0, 1). */
  random(): number;
}

/** Delay after consecutive failures, at least one. Half of the delay is random, so that clients do not retry in step. */
export function backoffMs({ firstMs, maxMs }: Backoff, failures: number, dice: RandomSource): number {
  const full = Math.min(maxMs, firstMs * 2 ** Math.max(0, failures - 1));
  return Math.round((full / 2) * (1 + dice.random()));
}

/** Deadline with a clock that can be paused while other parties, such as approvers, take their time. */
export class PausableDeadline {
  readonly #expire: () => void;
  /** Remaining time when the clock last started or stopped. */
  #leftMs: number;
  #startedAt: number | null = null;
  #timer: NodeJS.Timeout | undefined;
  #pauses = 0;
  #isOver = false;

  constructor(timeoutMs: number, expire: () => void) {
    this.#leftMs = timeoutMs;
    this.#expire = expire;
    this.#start();
  }

  get leftMs(): number {
    return this.#startedAt === null ? this.#leftMs : this.#leftMs - (performance.now() - this.#startedAt);
  }

  /** Pauses the clock until every returned function was called. */
  pause(): () => void {
    this.#pauses += 1;
    this.#stop();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#pauses -= 1;
      if (this.#pauses === 0) this.#start();
    };
  }

  /** Subtracts time from the clock, also while it is paused; a negative time is added. */
  spend(ms: number): void {
    if (this.#isOver) return;
    const runs = this.#startedAt !== null;
    this.#stop();
    this.#leftMs -= ms;
    if (this.#leftMs <= 0) {
      this.clear();
      this.#expire();
    } else if (runs) this.#start();
  }

  clear(): void {
    this.#isOver = true;
    this.#stop();
  }

  #start(): void {
    if (this.#isOver) return;
    this.#startedAt = performance.now();
    this.#timer = setTimeout(
      () => {
        this.clear();
        this.#expire();
      },
      Math.max(0, this.#leftMs),
    );
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#leftMs = this.leftMs;
    this.#startedAt = null;
  }
}

/** Maximum time on the thread: unnoticed by callers, and long compared with the cost of a yield. */
const SLICE_MS = 10;

/** Time slice of a long loop on the main thread. Yields to other work after {@link SLICE_MS}. */
export class TimeSlice {
  #startedAt = performance.now();

  get isOver(): boolean {
    return performance.now() - this.#startedAt >= SLICE_MS;
  }

  async yield(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    this.#startedAt = performance.now();
  }
}
