import { PausableDeadline } from '../../base/pausable-deadline.ts';

/** How often it is looked at what a guest computes while its clock stands still. */
const LOOK_MS = 1_000;

/**
 * The deadline of a run, counted from {@link start}. It is paused while an approval is pending, except for the time that
 * the guest computes meanwhile: requesting approvals without waiting for them gains no time.
 */
export class RunClock {
  readonly #deadline: PausableDeadline;
  readonly #computed: () => Promise<number | null>;
  #pauses = 0;
  #looking: NodeJS.Timeout | undefined;
  #computedMs: number | null = null;
  #isAsked = false;
  /** Starts the clock. To be called when the guest starts. */
  readonly start: () => void;

  /** `computed`: milliseconds that the guest has computed; null: nobody can tell. */
  constructor(timeoutMs: number, computed: () => Promise<number | null>, expire: () => void) {
    this.#deadline = new PausableDeadline(timeoutMs, expire);
    this.start = this.#deadline.pause();
    this.#computed = computed;
  }

  get leftMs(): number {
    return this.#deadline.leftMs;
  }

  /** Takes time off it; a negative time is given back. */
  spend(ms: number): void {
    this.#deadline.spend(ms);
  }

  pause(): () => void {
    const goOn = this.#deadline.pause();
    this.#pauses += 1;
    if (this.#pauses === 1) this.#begin();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#pauses -= 1;
      if (this.#pauses === 0) this.#end();
      goOn();
    };
  }

  clear(): void {
    this.#end();
    this.#deadline.clear();
  }

  #begin(): void {
    this.#computedMs = null;
    void this.#look();
    this.#looking = setInterval(() => void this.#look(), LOOK_MS);
  }

  #end(): void {
    clearInterval(this.#looking);
    this.#looking = undefined;
  }

  async #look(): Promise<void> {
    // A thread that does not even say how much it computes is busy.
    if (this.#isAsked) return this.#deadline.spend(LOOK_MS);
    this.#isAsked = true;
    const computedMs = await this.#computed();
    this.#isAsked = false;
    if (computedMs === null || this.#looking === undefined) return;
    if (this.#computedMs !== null) this.#deadline.spend(computedMs - this.#computedMs);
    this.#computedMs = computedMs;
  }
}
