/** How long one piece of work may hold the thread: short beside what a caller notices, long beside the cost of a turn. */
const TURN_MS = 10;

/** For work on thousands of things: says when it has held the thread for long enough, and lets others have a turn. */
export class Turns {
  #startedAt = performance.now();

  get over(): boolean {
    return performance.now() - this.#startedAt >= TURN_MS;
  }

  async next(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    this.#startedAt = performance.now();
  }
}
