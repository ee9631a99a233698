import { availableParallelism } from 'node:os';
import { ConfigError } from '../../config/config-error.ts';
import { refuseUnknownKeys } from '../../config/option-keys.ts';
import type { Prepared, PrepareOptions } from '../../load/prepare.ts';
import type { GuestSeat } from './guest-seat.ts';
import { BEAT_MS } from './heartbeat.ts';
import { ModuleCache, moduleDigest } from './module-cache.ts';
import { type PoolGuest, PoolSeat, type SeatingThreads, type SharedPlace } from './pool-seat.ts';
import { type SharedGuest, SharedGuestThread } from './shared-guest-thread.ts';
import type { GuestThreadsOptions, ThreadState } from './threads-options.ts';
import { TurnClock } from './turn-clock.ts';

const MIN_THREADS = 2;
const GUESTS_PER_THREAD = 4000;
const MEMORY_BYTES_PER_THREAD = 4 * 1024 ** 3;
/** V8 reserves about 10 GiB of addresses for each memory, whatever its size, and aborts near 16,000 of them. */
const MAX_MEMORIES = 12_000;
/** Guests that wait for a place. */
const MAX_WAITING = 10_000;
/** Modules that get threads of their own; beyond it the first is given another chance. */
const MAX_BLAMED = 10_000;

/** Of this process: addresses are shared by all that runs in it. */
let memories = 0;

interface Waiting {
  readonly namespace: string;
  readonly guest: SharedGuest;
  readonly seated: (place: SharedPlace) => void;
}

const memoriesOf = (prepared: Prepared) => (prepared.kind === 'core' ? 1 : prepared.coreModules.size);

/** Who sits where: what is behind `GuestThreads`. */
export class Seating implements SeatingThreads {
  readonly #options: Required<{ readonly [Key in keyof GuestThreadsOptions]: number }>;
  readonly #modules = new ModuleCache();
  readonly #clock = new TurnClock();
  readonly #threads = new Set<SharedGuestThread>();
  readonly #blamed = new Set<string>();
  #waiting: Waiting[] = [];
  #beat: NodeJS.Timeout | null = null;
  #isClosed = false;

  /** @throws ConfigError, RangeError */
  constructor(options: GuestThreadsOptions = {}) {
    this.#options = {
      threads: options.threads ?? Math.max(MIN_THREADS, availableParallelism()),
      guestsPerThread: options.guestsPerThread ?? GUESTS_PER_THREAD,
      memoryBytesPerThread: options.memoryBytesPerThread ?? MEMORY_BYTES_PER_THREAD,
    };
    refuseUnknownKeys('GuestThreads', options, this.#options);
    for (const [name, value] of Object.entries(this.#options)) {
      if (!Number.isSafeInteger(value) || value < 1) throw new RangeError(`${name}: expected a whole number from 1`);
    }
  }

  /** What is on each thread now. */
  get threads(): readonly ThreadState[] {
    return [...this.#threads].map(({ namespace, guests, memoryBytes }) => ({ namespace, guests, memoryBytes }));
  }

  /** As `prepare`, once for each module and its limits. @throws ModuleError */
  prepare(bytes: Uint8Array, options: PrepareOptions): Promise<Prepared> {
    return this.#modules.prepare(bytes, { ...options, givesWay: !this.#blamed.has(moduleDigest(bytes)) });
  }

  /** A place for a guest whose module may still be compiled. */
  reserve(guest: PoolGuest): GuestSeat {
    return new PoolSeat(this, guest);
  }

  /** Why a module is not seated here; null: it is. */
  refusal(prepared: Prepared, digest: string): string | null {
    if (this.#blamed.has(digest)) return 'a guest of this module blocked its shared thread';
    return prepared.unshareable;
  }

  /** Seats a guest as soon as there is room. @throws Error if too many wait, or nothing is seated any more */
  async seat(namespace: string, guest: SharedGuest): Promise<SharedPlace> {
    const needed = memoriesOf(guest.prepared);
    const thread = this.#find(namespace, needed);
    if (thread !== undefined) return this.#open(thread, guest);
    if (this.#waiting.length >= MAX_WAITING)
      throw new Error(`too many guests wait for a thread (limit ${MAX_WAITING})`);
    return new Promise((seated) => this.#waiting.push({ namespace, guest, seated }));
  }

  /** Ends every thread; guests that are still there are lost. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#beat !== null) clearInterval(this.#beat);
    for (const { guest } of this.#waiting.splice(0)) {
      guest.listener.lost({
        reason: 'lost',
        message: 'the thread pool was closed before a slot was free for the guest',
      });
    }
    await Promise.all([...this.#threads].map((thread) => thread.close()));
    await this.#clock.close();
  }

  free({ thread, counters, memories: freed }: SharedPlace): void {
    memories -= freed;
    thread.counters.give(counters);
    this.#seatWaiting();
  }

  #open(thread: SharedGuestThread, guest: SharedGuest): SharedPlace {
    const needed = memoriesOf(guest.prepared);
    memories += needed;
    this.#startBeat();
    return { thread, memories: needed, ...thread.open(guest) };
  }

  /** In the order in which they came; those of a namespace without room do not hold up the others. */
  #seatWaiting(): void {
    if (this.#isClosed || this.#waiting.length === 0) return;
    this.#waiting = this.#waiting.filter(({ namespace, guest, seated }) => {
      const thread = this.#find(namespace, memoriesOf(guest.prepared));
      if (thread !== undefined) seated(this.#open(thread, guest));
      return thread === undefined;
    });
  }

  #find(namespace: string, needed: number): SharedGuestThread | undefined {
    if (this.#isClosed) throw new Error('the thread pool is closed');
    if (memories + needed > MAX_MEMORIES) return undefined;
    const { threads, guestsPerThread, memoryBytesPerThread } = this.#options;
    const fewest = [...this.#threads]
      .filter((thread) => thread.namespace === namespace && !thread.isGone)
      .filter(({ guests, memoryBytes }) => guests < guestsPerThread && memoryBytes < memoryBytesPerThread)
      .sort((one, other) => one.guests - other.guests)[0];
    if (fewest?.guests === 0) return fewest;
    if (this.#threads.size < threads) return this.#newThread(namespace);
    if (fewest !== undefined) return fewest;
    const idle = [...this.#threads].find(({ guests, isGone }) => guests === 0 && !isGone);
    if (idle === undefined) return undefined;
    void idle.close();
    return undefined;
  }

  #newThread(namespace: string): SharedGuestThread {
    const thread: SharedGuestThread = new SharedGuestThread({
      namespace,
      memoryBytes: this.#options.memoryBytesPerThread,
      clock: this.#clock,
      blamed: (digest) => this.#blame(digest),
      changed: () => {
        if (thread.isGone) this.#threads.delete(thread);
        this.#seatWaiting();
      },
    });
    this.#threads.add(thread);
    return thread;
  }

  #blame(digest: string): void {
    const [oldest] = this.#blamed;
    if (oldest !== undefined && this.#blamed.size >= MAX_BLAMED) this.#blamed.delete(oldest);
    this.#blamed.add(digest);
  }

  #startBeat(): void {
    this.#beat ??= setInterval(() => {
      const now = performance.now();
      for (const thread of this.#threads) thread.beat(now);
      if ([...this.#threads].some(({ guests }) => guests > 0) || this.#beat === null) return;
      clearInterval(this.#beat);
      this.#beat = null;
    }, BEAT_MS).unref();
  }
}

const seatings = new WeakMap<object, Seating>();

/** Lets a run find it; the public class has nothing of it. */
export function keepSeating(threads: object, seating: Seating): void {
  seatings.set(threads, seating);
}

/** @throws ConfigError */
export function seatingOf(threads: object): Seating {
  const found = seatings.get(threads);
  if (found === undefined) throw new ConfigError('runGuest: threads: expected a GuestThreads');
  return found;
}
