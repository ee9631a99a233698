export interface CallQueueLimits {
  /** Slots in use at one time. */
  readonly capacity: number;
  /** Entries that may wait. */
  readonly maxQueued: number;
}

/** One waiting call. Exactly one of the callbacks is called, once, unless the entry leaves before. */
export interface QueueEntry {
  readonly owner: string;
  /** The entry has a slot and must return it by {@link CallQueue.release}. */
  onSlot(queue: CallQueue): void;
  onEvicted(error: Error): void;
}

/**
 * Slots for calls, granted round-robin between the waiting owners and in order within an owner. When the queue is full,
 * the newest entry of the owner with most entries is evicted for an owner with fewer, so that no owner can starve others.
 */
export class CallQueue {
  #capacity: number;
  readonly #maxQueued: number;
  readonly #full: () => Error;
  readonly #entries = new Map<string, Set<QueueEntry>>();
  #queued = 0;
  #running = 0;
  #isServing = false;

  /** `full` creates the error for an entry that finds no room. */
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

  /** Takes a slot if one is free and no entry waits. */
  take(): boolean {
    if (this.#running >= this.#capacity || this.#queued > 0) return false;
    this.#running += 1;
    return true;
  }

  /** Returns one slot. Each holder must call it exactly once. */
  release(): void {
    this.#running -= 1;
    this.#serve();
  }

  /** Starts waiting. @throws the error for a full queue */
  enter(entry: QueueEntry): void {
    const { owner } = entry;
    const evicted = this.#queued < this.#maxQueued ? null : this.#evictFor(owner);
    const own = this.#entries.get(owner);
    if (own === undefined) this.#entries.set(owner, new Set([entry]));
    else own.add(entry);
    this.#queued += 1;
    // Last, because the callback may re-enter the queue.
    evicted?.onEvicted(this.#full());
  }

  /** Stops waiting. */
  leave(entry: QueueEntry): void {
    const own = this.#entries.get(entry.owner);
    if (own === undefined || !own.delete(entry)) return;
    this.#queued -= 1;
    if (own.size === 0) this.#entries.delete(entry.owner);
  }

  /** An entry may end in its callback and release its slot: the running loop handles that, without recursion. */
  #serve(): void {
    if (this.#isServing) return;
    this.#isServing = true;
    try {
      while (this.#running < this.#capacity && this.#queued > 0) {
        const [owner, own] = this.#entries.entries().next().value as [string, Set<QueueEntry>];
        const entry = own.values().next().value as QueueEntry;
        this.leave(entry);
        // The served owner moves to the end of the rotation.
        if (this.#entries.delete(owner)) this.#entries.set(owner, own);
        this.#running += 1;
        entry.onSlot(this);
      }
    } finally {
      this.#isServing = false;
    }
  }

  /** Evicts an entry in favour of this owner. @throws the error for a full queue */
  #evictFor(owner: string): QueueEntry {
    let longest: Set<QueueEntry> | null = null;
    for (const entries of this.#entries.values())
      if (longest === null || entries.size > longest.size) longest = entries;
    const own = this.#entries.get(owner)?.size ?? 0;
    if (longest === null || longest.size <= own + 1) throw this.#full();
    const newest = [...longest].at(-1) as QueueEntry;
    this.leave(newest);
    return newest;
  }
}
