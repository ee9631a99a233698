export type Release = () => void;

export interface CallQueueLimits {
  /** How many hold a place at one time. */
  readonly capacity: number;
  /** How many may wait for one. */
  readonly maxQueued: number;
}

interface Waiter {
  readonly owner: string;
  readonly take: (release: Release) => void;
  readonly refuse: (error: unknown) => void;
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

  /** A place that is free now, for whoever need not wait; null: there is none, or others were first. */
  take(): Release | null {
    return this.#running < this.#capacity && this.#queued === 0 ? this.#occupy() : null;
  }

  /** Rejects with the signal's reason when that comes first, or with the error for a full line. */
  acquire(owner: string, signal: AbortSignal): Promise<Release> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const free = this.take();
    if (free !== null) return Promise.resolve(free);
    if (this.#queued >= this.#maxQueued && !this.#makeWay(owner)) return Promise.reject(this.#full());
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.#remove(waiter);
        reject(signal.reason);
      };
      const waiter: Waiter = {
        owner,
        take: (release) => {
          signal.removeEventListener('abort', onAbort);
          resolve(release);
        },
        refuse: (error) => {
          signal.removeEventListener('abort', onAbort);
          reject(error);
        },
      };
      signal.addEventListener('abort', onAbort, { once: true });
      const line = this.#waiting.get(owner);
      if (line === undefined) this.#waiting.set(owner, new Set([waiter]));
      else line.add(waiter);
      this.#queued += 1;
    });
  }

  #occupy(): Release {
    this.#running += 1;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#running -= 1;
      this.#serve();
    };
  }

  #serve(): void {
    while (this.#running < this.#capacity && this.#queued > 0) {
      const [owner, line] = this.#waiting.entries().next().value as [string, Set<Waiter>];
      const waiter = line.values().next().value as Waiter;
      this.#remove(waiter);
      // An owner that was served goes to the end of the round.
      if (this.#waiting.delete(owner)) this.#waiting.set(owner, line);
      waiter.take(this.#occupy());
    }
  }

  #makeWay(owner: string): boolean {
    let longest: Set<Waiter> | null = null;
    for (const line of this.#waiting.values()) if (longest === null || line.size > longest.size) longest = line;
    const own = this.#waiting.get(owner)?.size ?? 0;
    if (longest === null || longest.size <= own + 1) return false;
    const newest = [...longest].at(-1) as Waiter;
    this.#remove(newest);
    newest.refuse(this.#full());
    return true;
  }

  #remove(waiter: Waiter): void {
    const line = this.#waiting.get(waiter.owner);
    if (line === undefined || !line.delete(waiter)) return;
    this.#queued -= 1;
    if (line.size === 0) this.#waiting.delete(waiter.owner);
  }
}
