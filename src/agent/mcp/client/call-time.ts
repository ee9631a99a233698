import type { McpServerRecord } from '../../../server/records/record.ts';
import { type Deadline, Deadlines } from './deadlines.ts';

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
