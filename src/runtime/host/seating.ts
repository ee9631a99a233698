import { availableParallelism } from 'node:os';
import { ConfigError } from '../../config/config-error.ts';
import { refuseUnknownKeys } from '../../config/option-keys.ts';
import type { Prepared, PrepareOptions } from '../wasm/prepare.ts';
import type { GuestSeat } from './guest-seat.ts';
import { BEAT_MS } from './heartbeat.ts';
import { ModuleCache, moduleDigest } from './module-cache.ts';
import { NoRoomError, type PoolGuest, PoolSeat, type SeatingThreads, type SharedPlace } from './pool-seat.ts';
import { type SharedGuest, SharedGuestThread } from './shared-guest-thread.ts';
import type { GuestThreadsOptions, ThreadState } from './threads-options.ts';
import { TurnClock } from './turn-clock.ts';

const MIN_THREADS = 2;
const NAMESPACE_THREADS = 32;
const GUESTS_PER_THREAD = 4000;
const MEMORY_BYTES_PER_THREAD = 4 * 1024 ** 3;
/** V8 reserves about 10 GiB of addresses for each memory, whatever its size, and aborts near 16,000 of them. */
const MAX_MEMORIES = 12_000;
/** Guests that wait for a place. */
const MAX_WAITING = 10_000;
/** How long a guest waits for one. */
const WAIT_MS = 1_000;
/** Modules that get threads of their own; beyond it the first is given another chance. */
const MAX_BLAMED = 10_000;

/** Of this process: addresses are shared by all that runs in it. */
let memories = 0;

interface Waiting {
  readonly namespace: string;
  readonly guest: SharedGuest;
  readonly seated: (place: SharedPlace) => void;
  readonly timer: NodeJS.Timeout;
}

const memoriesOf = (prepared: Prepared) => (prepared.kind === 'core' ? 1 : prepared.coreModules.size);

/** Who sits where: what is behind `GuestThreads`. */
export class Seating implements SeatingThreads {
  readonly #options: Required<{ readonly [Key in keyof GuestThreadsOptions]: number }>;
  readonly #modules = new ModuleCache();
  readonly #clock = new TurnClock();
  readonly #threads = new Set<SharedGuestThread>();
  readonly #blamed = new Set<string>();
  readonly #waiting = new Set<Waiting>();
  #beat: NodeJS.Timeout | null = null;
  #isClosed = false;

  /** @throws ConfigError, RangeError */
  constructor(options: GuestThreadsOptions = {}) {
    this.#options = {
      threads: options.threads ?? Math.max(MIN_THREADS, availableParallelism()),
      namespaceThreads: options.namespaceThreads ?? NAMESPACE_THREADS,
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
    return this.#live.map(({ namespace, guests, memoryBytes }) => ({ namespace, guests, memoryBytes }));
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

  /** Seats a guest as soon as there is room. @throws NoRoomError, Error if nothing is seated any more */
  async seat(namespace: string, guest: SharedGuest): Promise<SharedPlace> {
    const needed = memoriesOf(guest.prepared);
    const thread = this.#find(namespace, needed);
    if (thread !== undefined) return this.#open(thread, guest);
    if (this.#waiting.size >= MAX_WAITING) throw this.#noRoom(namespace);
    return new Promise((seated, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(waiting);
        reject(this.#noRoom(namespace));
      }, WAIT_MS);
      const waiting: Waiting = { namespace, guest, seated, timer };
      this.#waiting.add(waiting);
    });
  }

  /** Ends every thread; guests that are still there are lost. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#beat !== null) clearInterval(this.#beat);
    for (const { guest, timer } of this.#waiting) {
      clearTimeout(timer);
      guest.listener.lost({
        reason: 'lost',
        message: 'the thread pool was closed before a slot was free for the guest',
      });
    }
    this.#waiting.clear();
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
    if (this.#isClosed) return;
    for (const waiting of this.#waiting) {
      const { namespace, guest, seated, timer } = waiting;
      const thread = this.#find(namespace, memoriesOf(guest.prepared));
      if (thread === undefined) continue;
      clearTimeout(timer);
      this.#waiting.delete(waiting);
      seated(this.#open(thread, guest));
    }
  }

  /**
   * A thread with room. Every namespace gets a first thread before any gets a second: a first one may be beyond
   * `threads`, up to `namespaceThreads` of them, and takes the place of an idle one if there is any.
   */
  #find(namespace: string, needed: number): SharedGuestThread | undefined {
    if (this.#isClosed) throw new Error('the thread pool is closed');
    if (memories + needed > MAX_MEMORIES) return undefined;
    const { threads, namespaceThreads, guestsPerThread, memoryBytesPerThread } = this.#options;
    const live = this.#live;
    const own = live.filter((thread) => thread.namespace === namespace);
    const fewest = own
      .filter(({ guests, memoryBytes }) => guests < guestsPerThread && memoryBytes < memoryBytesPerThread)
      .sort((one, other) => one.guests - other.guests)[0];
    if (fewest?.guests === 0) return fewest;
    if (live.length < threads) return this.#newThread(namespace);
    if (fewest !== undefined) return fewest;
    const idle = [...own, ...live].find(({ guests }) => guests === 0);
    const isFirst = own.every((thread) => thread === idle);
    const others = live.length - (idle === undefined ? 0 : 1);
    if (others >= (isFirst ? threads + namespaceThreads : threads)) return undefined;
    void idle?.close();
    return this.#newThread(namespace);
  }

  get #live(): SharedGuestThread[] {
    return [...this.#threads].filter(({ isGone }) => !isGone);
  }

  #noRoom(namespace: string): NoRoomError {
    const { threads, namespaceThreads } = this.#options;
    const isFirst = this.#live.every((thread) => thread.namespace !== namespace);
    return new NoRoomError(
      isFirst
        ? `no guest thread is free for namespace ${namespace}: all ${threads + namespaceThreads} are in use`
        : `the guest threads of namespace ${namespace} are full`,
    );
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
      idle: () => {
        if (this.#live.length > this.#options.threads) void thread.close();
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
