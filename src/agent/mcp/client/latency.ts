/** What a new time weighs beside those before it. */
const WEIGHT = 1 / 8;

/** How long a server takes to answer, smoothed so that one slow call is seen and soon forgotten. */
export class Latency {
  #ms: number | null = null;

  took(ms: number): void {
    this.#ms = this.#ms === null ? ms : this.#ms + (ms - this.#ms) * WEIGHT;
  }

  /** Null: it has answered nothing yet. */
  get ms(): number | null {
    return this.#ms;
  }
}
