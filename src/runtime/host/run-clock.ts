import { PausableDeadline } from '../../base/timing.ts';

/** Interval at which the guest's computing time is sampled while its deadline is paused. */
const SAMPLE_MS = 1_000;

/**
 * The deadline of a run, counted from {@link start}. It is paused while an approval is pending, except for the time that
 * the guest computes meanwhile: requesting approvals without waiting for them gains no time.
 */
export class RunClock {
  readonly #deadline: PausableDeadline;
  readonly #computed: () => Promise<number | null>;
  #pauses = 0;
  #sampler: NodeJS.Timeout | undefined;
  #computedMs: number | null = null;
  #isSampling = false;
  /** Starts the clock. To be called when the guest starts. */
  readonly start: () => void;

  /** `computed`: milliseconds that the guest has computed; null: unknown. */
  constructor(timeoutMs: number, computed: () => Promise<number | null>, expire: () => void) {
    this.#deadline = new PausableDeadline(timeoutMs, expire);
    this.start = this.#deadline.pause();
    this.#computed = computed;
  }

  get leftMs(): number {
    return this.#deadline.leftMs;
  }

  /** Subtracts time; a negative value adds it back. */
  spend(ms: number): void {
    this.#deadline.spend(ms);
  }

  pause(): () => void {
    const resume = this.#deadline.pause();
    this.#pauses += 1;
    if (this.#pauses === 1) this.#begin();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#pauses -= 1;
      if (this.#pauses === 0) this.#end();
      resume();
    };
  }

  clear(): void {
    this.#end();
    this.#deadline.clear();
  }

  #begin(): void {
    this.#computedMs = null;
    void this.#sample();
    this.#sampler = setInterval(() => void this.#sample(), SAMPLE_MS);
  }

  #end(): void {
    clearInterval(this.#sampler);
    this.#sampler = undefined;
  }

  async #sample(): Promise<void> {
    // The previous sample is still pending: the thread is too busy to answer, so all of the interval counts.
    if (this.#isSampling) return this.#deadline.spend(SAMPLE_MS);
    this.#isSampling = true;
    const computedMs = await this.#computed();
    this.#isSampling = false;
    if (computedMs === null || this.#sampler === undefined) return;
    if (this.#computedMs !== null) this.#deadline.spend(computedMs - this.#computedMs);
    this.#computedMs = computedMs;
  }
}
