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
  /** The time of each that is in there; another one of the same run is old. */
  readonly #known = new Map<string, number>();
  /** Some had no room: they are to be looked for again. */
  isPartial = false;

  constructor(max: number) {
    this.#max = max;
  }

  get next(): number | null {
    return this.#times[0]?.atMs ?? null;
  }

  add(time: WakeTime): void {
    if (this.#known.get(time.id) === time.atMs) return;
    this.#known.set(time.id, time.atMs);
    let [from, to] = [0, this.#times.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#times[middle] as WakeTime).atMs <= time.atMs) from = middle + 1;
      else to = middle;
    }
    this.#times.splice(from, 0, time);
    if (this.#times.length <= this.#max) return;
    const last = this.#times.pop();
    if (last !== undefined) this.#isOver(last);
    this.isPartial = true;
  }

  /** At most `max` of those whose time has come. */
  takeDue(now: number, max: number): readonly WakeTime[] {
    let due = 0;
    while (due < max && due < this.#times.length && (this.#times[due] as WakeTime).atMs <= now) due += 1;
    return this.#times.splice(0, due).filter((time) => this.#isOver(time));
  }

  /** False: it is an old one. */
  #isOver({ id, atMs }: WakeTime): boolean {
    return this.#known.get(id) === atMs && this.#known.delete(id);
  }
}
