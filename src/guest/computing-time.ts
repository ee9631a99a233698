/** What one guest of many has computed: between its waits, for the host to see. */
export class ComputingTime {
  readonly #told: Float64Array | null;
  #sumMs = 0;
  #since: number | null = null;

  constructor(told: Float64Array | null) {
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
    if (this.#told !== null) this.#told[0] = this.#sumMs;
  }
}
