/** How long a thread that stopped writing is waited for: its disk hangs, or the reader of its pipe does not read. */
export const STALLED_MS = 5_000;
/** How long a thread that has not run yet is waited for. Starting one takes seconds of wall time on a busy machine. */
export const START_MS = 60_000;

/**
 * Decides when a closing audit log gives up on its writer thread. Only a lack of progress counts: a fixed time since the
 * close would drop the lines of a thread that is slow because the machine is busy.
 */
export class DrainDeadline {
  #steps: number;
  #untilMs: number;

  /** `steps`: the thread's count of finished steps; 0 until it runs. */
  constructor(nowMs: number, steps: number) {
    this.#steps = steps;
    this.#untilMs = nowMs + allowedMs(steps);
  }

  /** Milliseconds that the thread may still take for its next step; 0 or less when it is to be given up. */
  leftMs(nowMs: number, steps: number): number {
    if (steps !== this.#steps) {
      this.#steps = steps;
      this.#untilMs = nowMs + allowedMs(steps);
    }
    return this.#untilMs - nowMs;
  }
}

function allowedMs(steps: number): number {
  return steps === 0 ? START_MS : STALLED_MS;
}
