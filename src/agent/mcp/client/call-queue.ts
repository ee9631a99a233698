export interface CallQueueLimits {
  /** How many hold a place at one time. */
  readonly capacity: number;
  /** How many may wait for one. */
  readonly maxQueued: number;
}

/** Who waits for a place. One of the two is called, once, unless it leaves the line before. */
export interface Waiter {
  readonly owner: string;
  /** It has its place now, and gives it back by {@link CallQueue.release}. */
  placed(queue: CallQueue): void;
  refused(error: Error): void;
}

/**
 * Places for work, given out in turn to the owners that wait, and in order within an owner. When the line is full, the
 * newest entry of the owner with most of them makes way for an owner with fewer, so nobody can keep others out.
 */
export class CallQueue {
  #capacity: number;
  readonly #maxQueued: number;
  readonly #full: () => Error;
  readonly #waiting = new Map<string, Set<Waiter>>();
  #queued = 0;
  #running = 0;
  #isServing = false;

  /** `full` makes the error for whoever finds no place in the line. */
  constructor(limits: CallQueueLimits, full: () => Error) {
    this.#capacity = limits.capacity;
    this.#maxQueued = limits.maxQueued;
    this.#full = full;
  }

  get running(): number {
    return this.#running;
  }

  get queued(): number {
    return this.#queued;
  }

  setCapacity(capacity: number): void {
    this.#capacity = capacity;
    this.#serve();
  }

  /** A place that is free now; false: there is none, or others were first. */
  take(): boolean {
    if (this.#running >= this.#capacity || this.#queued > 0) return false;
    this.#running += 1;
    return true;
  }

  /** Gives back one place that was taken or given; whoever holds it sees to it that it does so once. */
  release(): void {
    this.#running -= 1;
    this.#serve();
  }

  /** Stands in line. @throws the error for a full line */
  enter(waiter: Waiter): void {
    const { owner } = waiter;
    const leaver = this.#queued < this.#maxQueued ? null : this.#leaverFor(owner);
    const line = this.#waiting.get(owner);
    if (line === undefined) this.#waiting.set(owner, new Set([waiter]));
    else line.add(waiter);
    this.#queued += 1;
    // Last: whoever hears of it may do anything.
    leaver?.refused(this.#full());
  }

  /** Waits no longer. */
  leave(waiter: Waiter): void {
    const line = this.#waiting.get(waiter.owner);
    if (line === undefined || !line.delete(waiter)) return;
    this.#queued -= 1;
    if (line.size === 0) this.#waiting.delete(waiter.owner);
  }

  /** Whoever is served may end at once and release its place: the one loop goes on with that, however many there are. */
  #serve(): void {
    if (this.#isServing) return;
    this.#isServing = true;
    try {
      while (this.#running < this.#capacity && this.#queued > 0) {
        const [owner, line] = this.#waiting.entries().next().value as [string, Set<Waiter>];
        const waiter = line.values().next().value as Waiter;
        this.leave(waiter);
        // An owner that was served goes to the end of the round.
        if (this.#waiting.delete(owner)) this.#waiting.set(owner, line);
        this.#running += 1;
        waiter.placed(this);
      }
    } finally {
      this.#isServing = false;
    }
  }

  /** Who has made way for one of this owner. @throws the error for a full line */
  #leaverFor(owner: string): Waiter {
    let longest: Set<Waiter> | null = null;
    for (const line of this.#waiting.values()) if (longest === null || line.size > longest.size) longest = line;
    const own = this.#waiting.get(owner)?.size ?? 0;
    if (longest === null || longest.size <= own + 1) throw this.#full();
    const newest = [...longest].at(-1) as Waiter;
    this.leave(newest);
    return newest;
  }
}
