import { COMPUTED_AT } from './binding/hostcall-counts.ts';

/** What one guest of many has computed: between its waits, for the host to see. */
export class ComputingTime {
  readonly #told: Float64Array;
  #sumMs = 0;
  #since: number | null = null;

  /** `told`: where the guest counts. */
  constructor(told: Float64Array) {
    this.#told = told;
  }

  begins(): void {
    this.ends();
    this.#since = performance.now();
  }

  ends(): void {
    if (this.#since === null) return;
    this.#sumMs += performance.now() - this.#since;
    this.#since = null;
    this.#told[COMPUTED_AT] = this.#sumMs;
  }
}
