import type { McpServerRecord } from '../../../server/records/server.ts';

/** Something that has to end in time. */
export interface Deadline {
  /** By `performance.now()`; set by {@link Deadlines}. */
  dueMs: number;
  /** The deadline passed and is no longer registered. */
  expire(): void;
}

/**
 * Many deadlines on one timer. Nearly all calls end in time, so registering one costs a set entry; only the timer looks
 * for the earliest deadline, and only when it fires.
 *
 * perf: bench/topics/mcp.ts "stdio, one at a time"
 */
export class Deadlines {
  readonly #deadlines = new Set<Deadline>();
  #timer: NodeJS.Timeout | null = null;
  #timerMs = Number.POSITIVE_INFINITY;

  add(deadline: Deadline, inMs: number): void {
    deadline.dueMs = performance.now() + inMs;
    this.#deadlines.add(deadline);
    if (deadline.dueMs < this.#timerMs) this.#setTimer(deadline.dueMs);
    else if (this.#deadlines.size === 1) this.#timer?.ref();
  }

  remove(deadline: Deadline): void {
    // The timer keeps running, but does not keep an otherwise idle process alive.
    if (this.#deadlines.delete(deadline) && this.#deadlines.size === 0) this.#timer?.unref();
  }

  #setTimer(dueMs: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timerMs = dueMs;
    this.#timer = setTimeout(() => this.#expireDue(), Math.max(1, Math.ceil(dueMs - performance.now())));
  }

  #expireDue(): void {
    this.#timer = null;
    this.#timerMs = Number.POSITIVE_INFINITY;
    const now = performance.now();
    for (const deadline of [...this.#deadlines]) {
      if (deadline.dueMs > now || !this.#deadlines.delete(deadline)) continue;
      deadline.expire();
    }
    let earliest = Number.POSITIVE_INFINITY;
    for (const { dueMs } of this.#deadlines) earliest = Math.min(earliest, dueMs);
    if (earliest < this.#timerMs) this.#setTimer(earliest);
  }
}

/** Shared by all calls of the process. */
const deadlines = new Deadlines();

/**
 * Time budget of one call: `tool_timeout_ms` from its dispatch, extended by each progress notification up to
 * `max_tool_timeout_ms`, and paused while a user answers a request of the server.
 */
export class CallTime implements Deadline {
  dueMs = 0;
  readonly expire: () => void;
  readonly #timeoutMs: number;
  /** Limit with progress. */
  readonly #longestMs: number;
  /** By `performance.now()`: progress extends the deadline at most to here. */
  #latestMs = 0;
  #leftMs = 0;
  #pausedAtMs = 0;

  /** `wantedMs` can only shorten what the record allows. */
  constructor({ budgets }: McpServerRecord, wantedMs = Number.POSITIVE_INFINITY, expire: () => void) {
    this.expire = expire;
    this.#timeoutMs = Math.min(wantedMs, budgets.tool_timeout_ms);
    this.#longestMs = Math.min(wantedMs, Math.max(budgets.tool_timeout_ms, budgets.max_tool_timeout_ms));
  }

  get mayBeLonger(): boolean {
    return this.#longestMs > this.#timeoutMs;
  }

  /** The limit that the call exceeded, for the error. */
  get limitMs(): number {
    return this.mayBeLonger && this.dueMs >= this.#latestMs ? this.#longestMs : this.#timeoutMs;
  }

  /** Returns the time for the response. */
  start(): number {
    this.startWait(this.#timeoutMs);
    this.#latestMs = this.dueMs + this.#longestMs - this.#timeoutMs;
    return this.#timeoutMs;
  }

  extend(): void {
    this.dueMs = Math.min(performance.now() + this.#timeoutMs, this.#latestMs);
  }

  pause(): void {
    this.#pausedAtMs = performance.now();
    this.#leftMs = Math.max(0, this.dueMs - this.#pausedAtMs);
    this.clear();
  }

  /** Returns the time that is left. */
  resume(): number {
    this.#latestMs += performance.now() - this.#pausedAtMs;
    this.startWait(this.#leftMs);
    return this.#leftMs;
  }

  /** Another wait of the same call, with a time of its own. */
  startWait(ms: number): void {
    deadlines.add(this, ms);
  }

  clear(): void {
    deadlines.remove(this);
  }
}
