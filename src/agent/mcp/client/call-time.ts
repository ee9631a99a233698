import type { McpServerRecord } from '../../../server/records/server.ts';

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

/** Of all calls of the process. */
const deadlines = new Deadlines();

/** Told when the time is over. */
export interface Timed {
  expire(): void;
}

/**
 * The time of one call. It has `tool_timeout_ms` from when it is sent, as much again each time its server tells how far it
 * is, within the longest that its record allows, and none of it passes while somebody thinks about a question.
 */
export class CallTime implements Deadline {
  dueMs = 0;
  readonly #call: Timed;
  readonly #timeoutMs: number;
  /** For a call whose server goes on telling how far it is. */
  readonly #longestMs: number;
  /** By `performance.now()`: progress puts its end off to here. */
  #latestMs = 0;
  /** What is left while the clock stands still, and since when it does. */
  #leftMs = 0;
  #stoppedAtMs = 0;

  /** `wantedMs` can only shorten what the record allows. */
  constructor(call: Timed, wantedMs = Number.POSITIVE_INFINITY, { budgets }: McpServerRecord) {
    this.#call = call;
    this.#timeoutMs = Math.min(wantedMs, budgets.tool_timeout_ms);
    this.#longestMs = Math.min(wantedMs, Math.max(budgets.tool_timeout_ms, budgets.max_tool_timeout_ms));
  }

  get mayBeLonger(): boolean {
    return this.#longestMs > this.#timeoutMs;
  }

  /** What it had, for who has to say that it was not enough. */
  get limitMs(): number {
    return this.mayBeLonger && this.dueMs >= this.#latestMs ? this.#longestMs : this.#timeoutMs;
  }

  /** Until the answer is there; gives how long that may be. */
  begin(): number {
    this.keep(this.#timeoutMs);
    this.#latestMs = this.dueMs + this.#longestMs - this.#timeoutMs;
    return this.#timeoutMs;
  }

  /** Another `tool_timeout_ms` from now, but never beyond the longest. */
  putOff(): void {
    this.dueMs = Math.min(performance.now() + this.#timeoutMs, this.#latestMs);
  }

  stop(): void {
    this.#stoppedAtMs = performance.now();
    this.#leftMs = Math.max(0, this.dueMs - this.#stoppedAtMs);
    this.drop();
  }

  /** Gives how long it still may be. */
  goOn(): number {
    this.#latestMs += performance.now() - this.#stoppedAtMs;
    this.keep(this.#leftMs);
    return this.#leftMs;
  }

  /** Another wait of the same call. */
  keep(ms: number): void {
    deadlines.keep(this, ms);
  }

  drop(): void {
    deadlines.drop(this);
  }

  expire(): void {
    this.#call.expire();
  }
}
