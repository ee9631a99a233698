/*
 * Scheduler of guests on threads that they share.
 *
 * `GuestThreads` is the public handle; `GuestScheduler` behind it places guests, and `PooledSlot` is the slot of one guest.
 *
 * Invariants
 * - A thread has guests of one namespace. Every namespace gets a first thread before any gets a second.
 * - Guests without a thread wait in one queue, at most WAIT_MS; a namespace without room does not block the others.
 * - A module whose guest blocked a thread is quarantined: its guests get dedicated threads from then on.
 * - The number of linear memories is bounded for the whole process, because V8 reserves address space for each.
 *
 * Everything here runs on the host thread. `SharedGuestThread` owns one worker, its heartbeat and its termination.
 */
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
import type { GuestThreadsOptions, ThreadState } from './threads-options.ts';

const MIN_THREADS = 2;
const NAMESPACE_THREADS = 32;
const GUESTS_PER_THREAD = 4000;
const MEMORY_BYTES_PER_THREAD = 4 * 1024 ** 3;
/** V8 reserves about 10 GiB of addresses for each memory, whatever its size, and aborts near 16,000 of them. */
const MAX_MEMORIES = 12_000;
const MAX_QUEUED = 10_000;
const WAIT_MS = 1_000;
/** Beyond this the module that was quarantined first is released. */
const MAX_QUARANTINED = 10_000;

/** Schedulers by their public handle, which exposes nothing of them. */
export const schedulers = new WeakMap<object, GuestScheduler>();

/** @throws ConfigError */
export function schedulerOf(threads: object): GuestScheduler {
  const found = schedulers.get(threads);
  if (found === undefined) throw new ConfigError('runGuest: threads: expected a GuestThreads');
  return found;
}

/** Linear memories of this process on shared threads: address space belongs to the process. */
let memories = 0;

const memoriesOf = (prepared: Prepared) => (prepared.kind === 'core' ? 1 : prepared.coreModules.size);

/** A guest's place on a shared thread. */
interface Placement extends ThreadPlacement {
  readonly thread: SharedGuestThread;
  readonly memories: number;
}

interface QueuedGuest {
  readonly namespace: string;
  readonly guest: SharedGuest;
  readonly place: (placement: Placement) => void;
  readonly timer: NodeJS.Timeout;
}

/** No thread had room for a guest in time. */
class NoRoomError extends Error {}

export class GuestScheduler {
  readonly #options: Required<{ readonly [Key in keyof GuestThreadsOptions]: number }>;
  readonly #modules = new ModuleCache();
  readonly #clock = new PreemptionClock();
  readonly #threads = new Set<SharedGuestThread>();
  /** Digests of modules. */
  readonly #quarantined = new Set<string>();
  readonly #queue = new Set<QueuedGuest>();
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

  get threads(): readonly ThreadState[] {
    return this.#live.map(({ namespace, guests, memoryBytes }) => ({ namespace, guests, memoryBytes }));
  }

  /** As `prepare`, once for each module and its limits. @throws ModuleError */
  prepare(bytes: Uint8Array, options: PrepareOptions): Promise<Prepared> {
    return this.#modules.prepare(bytes, { ...options, preemptible: !this.#quarantined.has(moduleDigest(bytes)) });
  }

  /** A slot for a guest whose module may still be compiling. */
  reserve(guest: PooledGuest): GuestSlot {
    return new PooledSlot(this, guest);
  }

  /** Why a module may not share a thread; null: it may. */
  refusal(prepared: Prepared, digest: string): string | null {
    if (this.#quarantined.has(digest)) return 'a guest of this module blocked its shared thread';
    return prepared.unshareable;
  }

  /** Starts a guest as soon as a thread has room. @throws NoRoomError, Error if the scheduler is closed */
  async place(namespace: string, guest: SharedGuest): Promise<Placement> {
    const thread = this.#find(namespace, memoriesOf(guest.prepared));
    if (thread !== undefined) return this.#open(thread, guest);
    if (this.#queue.size >= MAX_QUEUED) throw this.#noRoom(namespace);
    return new Promise((place, reject) => {
      const timer = setTimeout(() => {
        this.#queue.delete(queued);
        reject(this.#noRoom(namespace));
      }, WAIT_MS);
      const queued: QueuedGuest = { namespace, guest, place, timer };
      this.#queue.add(queued);
    });
  }

  /** Frees the place of a guest that has ended. Called once per placement. */
  free({ thread, counters, memories: freed }: Placement): void {
    memories -= freed;
    thread.counters.give(counters);
    this.#placeQueued();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#beat !== null) clearInterval(this.#beat);
    for (const { guest, timer } of this.#queue) {
      clearTimeout(timer);
      guest.listener.lost({
        reason: 'lost',
        message: 'the thread pool was closed before a slot was free for the guest',
      });
    }
    this.#queue.clear();
    await Promise.all([...this.#threads].map((thread) => thread.close()));
    await this.#clock.close();
  }

  #open(thread: SharedGuestThread, guest: SharedGuest): Placement {
    const needed = memoriesOf(guest.prepared);
    memories += needed;
    this.#startBeat();
    return { thread, memories: needed, ...thread.open(guest) };
  }

  #placeQueued(): void {
    if (this.#isClosed) return;
    for (const queued of this.#queue) {
      const { namespace, guest, place, timer } = queued;
      const thread = this.#find(namespace, memoriesOf(guest.prepared));
      if (thread === undefined) continue;
      clearTimeout(timer);
      this.#queue.delete(queued);
      place(this.#open(thread, guest));
    }
  }

  /**
   * A thread with room. The first thread of a namespace may be beyond `threads`, up to `namespaceThreads` of them, and
   * replaces an idle one if there is any.
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
      quarantine: (digest) => this.#quarantine(digest),
      changed: () => {
        if (thread.isGone) this.#threads.delete(thread);
        this.#placeQueued();
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

export interface PooledGuest extends GuestSpecSource {
  readonly namespace: string;
  readonly wasm: Uint8Array | Promise<Uint8Array>;
  /** Why the guest must not share a thread; null: it may. */
  readonly unshareable: string | null;
}

const SHARED: Isolation = { kind: 'shared', why: null };
const NONE: Isolation = { kind: 'none', why: null };

/** A slot on a shared thread, or a dedicated thread for a guest that may not share one. */
class PooledSlot implements GuestSlot {
  readonly #scheduler: GuestScheduler;
  readonly #guest: PooledGuest;
  #listener: SlotListener | null = null;
  #own: DedicatedThread | null = null;
  #placement: Placement | null = null;
  /** Hostcalls, once the placement was freed. */
  #finalHostcalls: Record<string, number> = {};
  #hasLeft = false;
  #hadNoRoom = false;

  constructor(scheduler: GuestScheduler, guest: PooledGuest) {
    this.#scheduler = scheduler;
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
    const why = this.#guest.unshareable ?? this.#scheduler.refusal(prepared, digest);
    if (why === null) {
      try {
        const guest = { spec: this.#guest.spec(), prepared, digest, listener };
        this.#placement = await this.#scheduler.place(namespace, guest);
      } catch (error) {
        if (!(error instanceof NoRoomError)) throw error;
        this.#hadNoRoom = true;
        listener.lost({ reason: 'lost', message: error.message });
      }
      if (this.#hasLeft) await this.#leavePlacement();
      return;
    }
    if (this.#hasLeft) return;
    this.#own = new DedicatedThread(this.#guest, why);
    this.#own.listen(listener);
    await this.#own.start(prepared);
  }

  reply(call: number, reply: HostReply): void {
    if (this.#own !== null) this.#own.reply(call, reply);
    else this.#placement?.thread.post(this.#placement.guest, call, reply);
  }

  hostcalls(): Record<string, number> {
    if (this.#own !== null) return this.#own.hostcalls();
    return this.#placement?.thread.counters.hostcalls(this.#placement.counters) ?? this.#finalHostcalls;
  }

  async computedMs(): Promise<number | null> {
    if (this.#own !== null) return this.#own.computedMs();
    return this.#placement?.thread.counters.computedMs(this.#placement.counters) ?? null;
  }

  async leave(): Promise<void> {
    this.#hasLeft = true;
    await this.#own?.leave();
    await this.#leavePlacement();
  }

  async #leavePlacement(): Promise<void> {
    const placement = this.#placement;
    if (placement === null) return;
    await placement.thread.end(placement.guest);
    if (this.#placement !== placement) return;
    this.#finalHostcalls = this.hostcalls();
    this.#placement = null;
    this.#scheduler.free(placement);
  }
}
