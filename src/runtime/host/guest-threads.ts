import { availableParallelism } from 'node:os';
import { ConfigError } from '../../config/config-error.ts';
import { refuseUnknownKeys } from '../../config/option-keys.ts';
import type { HostReply } from '../port/port.ts';
import type { Prepared, PrepareOptions } from '../wasm/prepare.ts';
import { DedicatedThread, type GuestSlot, type GuestSpecSource, type SlotListener } from './guest-slot.ts';
import { BEAT_MS } from './heartbeat.ts';
import { ModuleCache, moduleDigest } from './module-cache.ts';
import { PreemptionClock } from './preemption-clock.ts';
import type { Isolation } from './run-result.ts';
import { type SharedGuest, SharedGuestThread, type ThreadPlacement } from './shared-guest-thread.ts';

/**
 * A few threads that guests share, many on each. A thread has guests of one namespace. One that does not turn round
 * within `limits.turn_ms` is ended, its guests are lost to it, and the module that held it is placed here no more.
 */
export class GuestThreads implements AsyncDisposable {
  readonly #scheduler: GuestScheduler;

  /** @throws ConfigError, RangeError */
  constructor(options: GuestThreadsOptions = {}) {
    this.#scheduler = new GuestScheduler(options);
    keepScheduler(this, this.#scheduler);
  }

  get threads(): readonly ThreadState[] {
    return this.#scheduler.threads;
  }

  /** Ends every thread; guests that are still there are lost. */
  close(): Promise<void> {
    return this.#scheduler.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** A guest on a thread that it shares. */
export interface PooledPlacement extends ThreadPlacement {
  readonly thread: SharedGuestThread;
  /** Linear memories that it has. */
  readonly memories: number;
}

/** The threads as a seat uses them. */
export interface SeatingThreads {
  refusal(prepared: Prepared, digest: string): string | null;
  /** @throws NoRoomError, Error */
  seat(namespace: string, guest: SharedGuest): Promise<PooledPlacement>;
  /** To be called once, when the guest has ended. */
  free(place: PooledPlacement): void;
}

export interface PooledGuest extends GuestSpecSource {
  readonly namespace: string;
  readonly wasm: Uint8Array | Promise<Uint8Array>;
  /** Why it must not share a thread; null: it may. */
  readonly unshareable: string | null;
}

const SHARED: Isolation = { kind: 'shared', why: null };
const NONE: Isolation = { kind: 'none', why: null };

/** No thread had room for a guest in time. */
export class NoRoomError extends Error {}

/** A place on a thread that guests share, or one of its own for a guest that cannot be placed there. */
export class PooledSlot implements GuestSlot {
  readonly #threads: SeatingThreads;
  readonly #guest: PooledGuest;
  #listener: SlotListener | null = null;
  #own: DedicatedThread | null = null;
  #place: PooledPlacement | null = null;
  /** What it had called when it left its place. */
  #called: Record<string, number> = {};
  #hasLeft = false;
  #hadNoRoom = false;

  constructor(threads: SeatingThreads, guest: PooledGuest) {
    this.#threads = threads;
    this.#guest = guest;
  }

  get isolation(): Isolation {
    return this.#own?.isolation ?? (this.#hadNoRoom ? NONE : SHARED);
  }

  listen(listener: SlotListener): void {
    this.#listener = listener;
  }

  async start(prepared: Prepared): Promise<void> {
    const listener = this.#listener;
    if (listener === null) throw new Error('a guest was started without a listener');
    const { namespace, wasm } = this.#guest;
    const digest = moduleDigest(wasm instanceof Uint8Array ? wasm : await wasm);
    const why = this.#guest.unshareable ?? this.#threads.refusal(prepared, digest);
    if (why === null) {
      try {
        this.#place = await this.#threads.seat(namespace, { spec: this.#guest.spec(), prepared, digest, listener });
      } catch (error) {
        if (!(error instanceof NoRoomError)) throw error;
        this.#hadNoRoom = true;
        listener.lost({ reason: 'lost', message: error.message });
      }
      if (this.#hasLeft) await this.#leavePlace();
      return;
    }
    if (this.#hasLeft) return;
    this.#own = new DedicatedThread(this.#guest, why);
    this.#own.listen(listener);
    await this.#own.start(prepared);
  }

  reply(call: number, reply: HostReply): void {
    if (this.#own !== null) this.#own.reply(call, reply);
    else this.#place?.thread.say(this.#place.guest, call, reply);
  }

  hostcalls(): Record<string, number> {
    if (this.#own !== null) return this.#own.hostcalls();
    return this.#place?.thread.counters.hostcalls(this.#place.counters) ?? this.#called;
  }

  async computedMs(): Promise<number | null> {
    if (this.#own !== null) return this.#own.computedMs();
    return this.#place?.thread.counters.computedMs(this.#place.counters) ?? null;
  }

  async leave(): Promise<void> {
    this.#hasLeft = true;
    await this.#own?.leave();
    await this.#leavePlace();
  }

  async #leavePlace(): Promise<void> {
    const place = this.#place;
    if (place === null) return;
    await place.thread.end(place.guest);
    if (this.#place !== place) return;
    this.#called = this.hostcalls();
    this.#place = null;
    this.#threads.free(place);
  }
}

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
/** Modules that get threads of their own; beyond it the first is given another sources. */
const MAX_QUARANTINED = 10_000;

/** Of this process: addresses are shared by all that runs in it. */
let memories = 0;

interface Waiting {
  readonly namespace: string;
  readonly guest: SharedGuest;
  readonly placed: (place: PooledPlacement) => void;
  readonly timer: NodeJS.Timeout;
}

const memoriesOf = (prepared: Prepared) => (prepared.kind === 'core' ? 1 : prepared.coreModules.size);

/** Who sits where: what is behind `GuestThreads`. */
export class GuestScheduler implements SeatingThreads {
  readonly #options: Required<{ readonly [Key in keyof GuestThreadsOptions]: number }>;
  readonly #modules = new ModuleCache();
  readonly #clock = new PreemptionClock();
  readonly #threads = new Set<SharedGuestThread>();
  readonly #quarantined = new Set<string>();
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
    return this.#modules.prepare(bytes, { ...options, preemptible: !this.#quarantined.has(moduleDigest(bytes)) });
  }

  /** A place for a guest whose module may still be compiled. */
  reserve(guest: PooledGuest): GuestSlot {
    return new PooledSlot(this, guest);
  }

  /** Why a module is not placed here; null: it is. */
  refusal(prepared: Prepared, digest: string): string | null {
    if (this.#quarantined.has(digest)) return 'a guest of this module blocked its shared thread';
    return prepared.unshareable;
  }

  /** Seats a guest as soon as there is room. @throws NoRoomError, Error if nothing is placed any more */
  async seat(namespace: string, guest: SharedGuest): Promise<PooledPlacement> {
    const needed = memoriesOf(guest.prepared);
    const thread = this.#find(namespace, needed);
    if (thread !== undefined) return this.#open(thread, guest);
    if (this.#waiting.size >= MAX_WAITING) throw this.#noRoom(namespace);
    return new Promise((placed, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(waiting);
        reject(this.#noRoom(namespace));
      }, WAIT_MS);
      const waiting: Waiting = { namespace, guest, placed, timer };
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

  free({ thread, counters, memories: freed }: PooledPlacement): void {
    memories -= freed;
    thread.counters.give(counters);
    this.#placeWaiting();
  }

  #open(thread: SharedGuestThread, guest: SharedGuest): PooledPlacement {
    const needed = memoriesOf(guest.prepared);
    memories += needed;
    this.#startBeat();
    return { thread, memories: needed, ...thread.open(guest) };
  }

  /** In the order in which they came; those of a namespace without room do not hold up the others. */
  #placeWaiting(): void {
    if (this.#isClosed) return;
    for (const waiting of this.#waiting) {
      const { namespace, guest, placed, timer } = waiting;
      const thread = this.#find(namespace, memoriesOf(guest.prepared));
      if (thread === undefined) continue;
      clearTimeout(timer);
      this.#waiting.delete(waiting);
      placed(this.#open(thread, guest));
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
      quarantined: (digest) => this.#quarantine(digest),
      changed: () => {
        if (thread.isGone) this.#threads.delete(thread);
        this.#placeWaiting();
      },
      idle: () => {
        if (this.#live.length > this.#options.threads) void thread.close();
      },
    });
    this.#threads.add(thread);
    return thread;
  }

  #quarantine(digest: string): void {
    const [oldest] = this.#quarantined;
    if (oldest !== undefined && this.#quarantined.size >= MAX_QUARANTINED) this.#quarantined.delete(oldest);
    this.#quarantined.add(digest);
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

const schedulers = new WeakMap<object, GuestScheduler>();

/** Lets a run find it; the public class has nothing of it. */
export function keepScheduler(threads: object, scheduler: GuestScheduler): void {
  schedulers.set(threads, scheduler);
}

/** @throws ConfigError */
export function schedulerOf(threads: object): GuestScheduler {
  const found = schedulers.get(threads);
  if (found === undefined) throw new ConfigError('runGuest: threads: expected a GuestThreads');
  return found;
}

export interface GuestThreadsOptions {
  /** Threads that namespaces may have several of. @default as many as the machine has processors, and two */
  readonly threads?: number | undefined;
  /** Threads beyond these, for namespaces that have none. @default 32 */
  readonly namespaceThreads?: number | undefined;
  /** Guests on one thread at most. @default 4000 */
  readonly guestsPerThread?: number | undefined;
  /** Linear memory of all guests of a thread together; beyond it the guest that grew is ended, with the reason `lost`. @default 4 GiB */
  readonly memoryBytesPerThread?: number | undefined;
}

/** What is on one thread now. */
export interface ThreadState {
  readonly namespace: string;
  readonly guests: number;
  /** Linear memory of its guests, as the thread last told. */
  readonly memoryBytes: number;
}
