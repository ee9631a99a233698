import { MAX_UNDERWAY, TOLD_AT_ONCE, underwayAt } from '../../port/guest-spec.ts';

/** How long one wait for the host lasts before it is asked again. */
const ROOM_WAIT_MS = 1_000;

/** What this thread has posted and the host has not taken: more than there is room for waits, so that nothing fills it. */
export class Underway {
  readonly #counts: Int32Array;
  readonly #at: number;

  constructor(shared: SharedArrayBuffer, what: keyof typeof underwayAt) {
    this.#counts = new Int32Array(shared);
    this.#at = underwayAt[what];
  }

  /** Waits until so much more has room, or all was taken that one is told of; ending the thread ends the wait. */
  waitFor(amount: number): void {
    for (let known = this.#load(); known >= TOLD_AT_ONCE && known + amount > MAX_UNDERWAY; known = this.#load()) {
      Atomics.wait(this.#counts, this.#at, known, ROOM_WAIT_MS);
    }
  }

  add(amount: number): void {
    Atomics.add(this.#counts, this.#at, amount);
  }

  #load(): number {
    return Atomics.load(this.#counts, this.#at);
  }
}
