/** A run that is to be woken at a time. */
export interface WakeTime {
  readonly namespace: string;
  readonly id: string;
  readonly atMs: number;
}

/** The runs whose time comes next, as many as there is room for, soonest first. */
export class WakeTimes {
  readonly #max: number;
  #times: WakeTime[] = [];
  /** Some had no room: they are to be looked for again. */
  isPartial = false;

  constructor(max: number) {
    this.#max = max;
  }

  get next(): number | null {
    return this.#times[0]?.atMs ?? null;
  }

  add(time: WakeTime): void {
    let [from, to] = [0, this.#times.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#times[middle] as WakeTime).atMs <= time.atMs) from = middle + 1;
      else to = middle;
    }
    this.#times.splice(from, 0, time);
    if (this.#times.length <= this.#max) return;
    this.#times.pop();
    this.isPartial = true;
  }

  /** At most `max` of those whose time has come. */
  takeDue(now: number, max: number): readonly WakeTime[] {
    let due = 0;
    while (due < max && due < this.#times.length && (this.#times[due] as WakeTime).atMs <= now) due += 1;
    return this.#times.splice(0, due);
  }

  clear(): void {
    this.#times = [];
    this.isPartial = false;
  }
}
