/** Where the server does not say how long. */
const DEFAULT_DELAY_MS = 1_000;
/** What it says is not taken at its word below this; if streams go on to bring nothing, the bound rises to the default. */
export const MIN_DELAY_MS = 100;
const GROWTH = 1.5;
/** What it says beyond this is no wait but an end: the call has a deadline. */
const MAX_DELAY_MS = 10 * 60_000;
/** In a row. At one a second that is longer than nearly every call may take. */
export const MAX_EMPTY_STREAMS = 1_000;

/** How soon a stream that a server closed is asked for again, and whether at all: a server that says "at once" is not obeyed. */
export class ResumePace {
  #emptyStreams = 0;

  /** The stream brought something, or was open for long enough to be meant. */
  reset(): void {
    this.#emptyStreams = 0;
  }

  /** `wantedMs`: what the server asked for, if it did. Null: it is given up. */
  nextMs(wantedMs: number | null): number | null {
    if (this.#emptyStreams >= MAX_EMPTY_STREAMS) return null;
    const least = Math.min(MIN_DELAY_MS * GROWTH ** this.#emptyStreams, DEFAULT_DELAY_MS);
    this.#emptyStreams += 1;
    return Math.min(Math.max(wantedMs ?? DEFAULT_DELAY_MS, least), MAX_DELAY_MS);
  }
}
