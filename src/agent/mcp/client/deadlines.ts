/** Something that has to be over in time. */
export interface Deadline {
  /** By `performance.now()`; set by whoever keeps it. */
  dueMs: number;
  /** It was not. It is kept no longer. */
  expire(): void;
}

/**
 * Many deadlines, one timer. Nearly all calls end in time, so keeping a deadline costs an entry in a set, and only the
 * timer looks for the earliest: at the latest then, which is as seldom as calls are long.
 */
export class Deadlines {
  readonly #kept = new Set<Deadline>();
  #timer: NodeJS.Timeout | null = null;
  #timerMs = Number.POSITIVE_INFINITY;

  keep(deadline: Deadline, inMs: number): void {
    deadline.dueMs = performance.now() + inMs;
    this.#kept.add(deadline);
    if (deadline.dueMs < this.#timerMs) this.#setTimer(deadline.dueMs);
    else if (this.#kept.size === 1) this.#timer?.ref();
  }

  drop(deadline: Deadline): void {
    // The timer stays as it is, but holds up no process that has nothing else to do.
    if (this.#kept.delete(deadline) && this.#kept.size === 0) this.#timer?.unref();
  }

  #setTimer(dueMs: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timerMs = dueMs;
    this.#timer = setTimeout(() => this.#look(), Math.max(1, Math.ceil(dueMs - performance.now())));
  }

  #look(): void {
    this.#timer = null;
    this.#timerMs = Number.POSITIVE_INFINITY;
    const now = performance.now();
    for (const deadline of [...this.#kept]) {
      if (deadline.dueMs > now || !this.#kept.delete(deadline)) continue;
      deadline.expire();
    }
    let earliest = Number.POSITIVE_INFINITY;
    for (const { dueMs } of this.#kept) earliest = Math.min(earliest, dueMs);
    if (earliest < this.#timerMs) this.#setTimer(earliest);
  }
}
