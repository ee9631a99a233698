/** A deadline whose clock can be stopped: the time that somebody else takes does not count. */
export class PausableDeadline {
  readonly #expire: () => void;
  /** When the clock last started or stopped. */
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

  /** The clock stands still until everybody who stopped it has called what this gives. */
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

  /** Takes time off the clock, also while it stands still; a negative time is given back. */
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
