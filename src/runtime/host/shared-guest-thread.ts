/*
 * Host side of one thread that guests share: starts and ends its guests, and terminates the thread if a guest blocks it.
 *
 * Invariants
 * - Guest numbers of a thread rise and are never reused, so a late message of an ended guest is dropped.
 * - Every guest is either reported as `ended` by the thread, or lost exactly once when the thread is gone.
 * - If a guest blocks the thread or exhausts its heap, the module of that guest is quarantined; its co-tenants are lost
 *   without blame. A failure of the system (no more memory or descriptors) quarantines nothing.
 *
 * The host knows which guest runs from `preemptionWords.holder`, which the thread writes whenever a guest resumes.
 * Placement of guests on threads is the scheduler's (`guest-threads.ts`).
 */
import type { Worker } from 'node:worker_threads';
import { type GuestSpec, preemptionWords, type SharedGuestTerms } from '../port/guest-spec.ts';
import type { Limits } from '../port/limits.ts';
import { type GuestMessage, type HostReply, PortViolation } from '../port/port.ts';
import type { Prepared } from '../wasm/prepare.ts';
import { GuestCounters } from './guest-counters.ts';
import { GuestPort } from './guest-port.ts';
import { type SlotListener, startMessage } from './guest-slot.ts';
import { sharedWorker, threadFailure } from './guest-worker.ts';
import { Heartbeat, processorTime } from './heartbeat.ts';
import type { PreemptionClock } from './preemption-clock.ts';
import type { GuestLoss } from './run-result.ts';

/** Guest number of the thread itself. */
const THREAD = 0;
const HEAP_MB = 2048;
/** Objects of waiting guests live long, so a small young generation suffices and costs each guest less. */
const YOUNG_MB = 6;
/** Modules that a thread retains for later guests. */
const MAX_MODULES = 256;
/** Messages taken while looking for the pong of a thread that seems blocked. */
const MAX_BEFORE_ANSWER = 64 * 1024;
/** If a cancelled guest has not ended this long after `limits.turn_ms`, its thread is terminated. */
const END_MS = 1000;
/** How long a thread is empty before the preemption clock stops watching it: short guests would wake the clock twice each. */
const IDLE_MS = 1000;

export interface SharedGuest {
  readonly spec: GuestSpec;
  readonly prepared: Prepared;
  /** sha256 of the module. */
  readonly digest: string;
  readonly listener: SlotListener;
}

export interface SharedThreadOptions {
  readonly namespace: string;
  /** Linear memory of all guests together. */
  readonly memoryBytes: number;
  readonly clock: PreemptionClock;
  /** A guest of this module blocked the thread or exhausted its heap. */
  readonly quarantine: (digest: string) => void;
  /** The thread has one guest less, or is gone. */
  readonly changed: () => void;
  /** The thread has had no guest for {@link IDLE_MS}. */
  readonly idle: () => void;
}

interface Occupant extends Pick<SharedGuest, 'digest' | 'listener'> {
  readonly limits: Limits;
  /** Null: no caller waits for its end. */
  ended: { readonly promise: Promise<void>; readonly resolve: () => void } | null;
}

/** Number and counters of a guest on its thread. */
export interface ThreadPlacement {
  readonly guest: number;
  readonly counters: number;
}

export class SharedGuestThread {
  readonly namespace: string;
  readonly turns = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  readonly #words = new Int32Array(this.turns.buffer);
  readonly #options: SharedThreadOptions;
  readonly #worker: Worker;
  readonly #port: GuestPort;
  readonly #exited: Promise<void>;
  readonly #heartbeat: Heartbeat;
  readonly #guests = new Map<number, Occupant>();
  readonly #modules = new Map<Prepared, number>();
  readonly #terms = new SharedTerms(
    (key, terms) => this.#port.post(THREAD, 0, ['terms', key, terms]),
    (key) => this.#port.post(THREAD, 0, ['forget_terms', key]),
  );
  readonly counters = new GuestCounters((block, counters) => this.#port.post(THREAD, 0, ['counters', block, counters]));
  readonly #booted = Promise.withResolvers<void>();
  #nextGuest = 1;
  #nextModule = 1;
  #isGone = false;
  #memoryBytes = 0;
  #unwatch: (() => void) | null = null;
  #idle: NodeJS.Timeout | null = null;

  constructor(options: SharedThreadOptions) {
    this.namespace = options.namespace;
    this.#options = options;
    const { worker, port, failed, exited } = sharedWorker(
      { turns: this.turns, memoryBytes: options.memoryBytes },
      HEAP_MB,
      YOUNG_MB,
    );
    this.#worker = worker;
    this.#exited = exited;
    this.#port = new GuestPort(port);
    this.#port.listen({
      receive: (message) => this.#receive(message),
      recordEvents: (guest, events) => this.#guests.get(guest)?.listener.recordEvents?.(events),
      violated: (message) => this.#gone(() => ({ reason: 'internal', message })),
    });
    this.#heartbeat = new Heartbeat((ping) => this.#port.post(THREAD, 0, ['ping', ping]), processorTime(worker));
    void failed.then((error) => this.#failed(error));
    void exited.then(() => this.#gone(() => lost('it exited unexpectedly')));
    this.#keepAlive();
  }

  get guests(): number {
    return this.#guests.size;
  }

  /** Linear memory of all guests, as last measured. */
  get memoryBytes(): number {
    return this.#memoryBytes;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** Starts a guest. The caller gives its counters back. */
  open({ spec, prepared, digest, listener }: SharedGuest): ThreadPlacement {
    const guest = this.#nextGuest++;
    this.#guests.set(guest, { digest, listener, limits: spec.limits, ended: null });
    this.#keepAlive();
    const { env, replay, recordedValues } = spec;
    const counters = this.counters.take();
    const [terms, module] = [this.#terms.key(spec), this.#module(prepared)];
    this.#port.post(THREAD, 0, ['open', guest, { env, replay, recordedValues }, terms, module, counters]);
    return { guest, counters };
  }

  post(guest: number, call: number, reply: HostReply): void {
    if (this.#guests.has(guest)) this.#port.post(guest, call, reply);
  }

  /** Cancels one guest; its co-tenants keep running. */
  async end(guest: number): Promise<void> {
    const occupant = this.#guests.get(guest);
    if (occupant === undefined) return;
    this.#port.post(guest, 0, ['end']);
    occupant.ended ??= Promise.withResolvers<void>();
    const { promise: ended } = occupant.ended;
    await Promise.race([this.#booted.promise, ended]);
    const timer = setTimeout(() => this.#notEnded(guest), occupant.limits.turn_ms + END_MS);
    await ended;
    clearTimeout(timer);
  }

  /** Pings the thread, and terminates it if a guest blocks it. */
  beat(now: number): void {
    if (this.#isGone || this.#guests.size === 0) return;
    const silentMs = this.#heartbeat.beat(now);
    if (silentMs === 0) return;
    const turnMs = this.#turnMs();
    if (silentMs < turnMs) return;
    this.#port.takeArrived(MAX_BEFORE_ANSWER); // the pong may have arrived while the host thread was busy
    void this.#heartbeat.isBlocked(now, turnMs).then((isBlocked) => isBlocked && this.#blocked());
  }

  async close(): Promise<void> {
    this.#gone(() => lost('it was closed'));
    await this.#exited;
  }

  #turnMs(): number {
    const holder = this.#guests.get(this.#holder());
    if (holder !== undefined) return holder.limits.turn_ms;
    return Math.max(...[...this.#guests.values()].map(({ limits }) => limits.turn_ms));
  }

  #holder(): number {
    return Atomics.load(this.#words, preemptionWords.holder);
  }

  #blocked(): void {
    const holder = this.#holder();
    const turnMs = this.#guests.get(holder)?.limits.turn_ms;
    this.#quarantine(holder, `the guest did not yield for limits.turn_ms = ${turnMs}`);
  }

  /** A guest did not end in time. If its thread is silent too, the running guest is at fault, else this one. */
  #notEnded(guest: number): void {
    this.#port.takeArrived(MAX_BEFORE_ANSWER); // its end may have arrived while the host thread was busy
    if (!this.#guests.has(guest)) return;
    const holder = this.#holder();
    const culprit = this.#heartbeat.isSilent && this.#guests.has(holder) ? holder : guest;
    this.#quarantine(culprit, 'the guest could not be stopped');
  }

  /** Terminates the thread and quarantines the module of the guest that blocked it. */
  #quarantine(culprit: number, why: string): void {
    if (this.#isGone) return;
    const occupant = this.#guests.get(culprit);
    if (occupant !== undefined) this.#options.quarantine(occupant.digest);
    this.#gone((guest) =>
      guest === culprit
        ? { reason: 'lost', message: `${why}: from now on its module gets a dedicated thread` }
        : lost('another guest blocked it'),
    );
  }

  #failed(error: NodeJS.ErrnoException): void {
    const holder = this.#holder();
    const culprit = this.#guests.get(holder);
    const failure = threadFailure(error, HEAP_MB);
    // A failure of the system is no guest's fault: every guest gets that reason and is retried.
    const isOfSystem = failure.systemError != null;
    if (culprit !== undefined && !isOfSystem) this.#options.quarantine(culprit.digest);
    this.#gone((guest) => (guest === holder || isOfSystem ? failure : lost('it failed')));
  }

  #receive(message: GuestMessage): void {
    const [guest] = message;
    if (guest === THREAD) {
      if (message[3] !== 'pong') throw new PortViolation(`${message[3]} without a guest`);
      this.#booted.resolve();
      this.#heartbeat.answered(message[4]);
      this.#measured(message[5], message[6]);
      return;
    }
    if (guest >= this.#nextGuest) throw new PortViolation('a message of an unknown guest');
    const occupant = this.#guests.get(guest);
    if (occupant === undefined) return;
    if (message[3] === 'pong') throw new PortViolation('unexpected pong of a guest');
    occupant.listener.receive(message);
    if (message[3] !== 'ended') return;
    this.#remove(guest, occupant);
    this.#options.changed();
  }

  /** Ends only the guest that grew most since the total was last within the limit. */
  #measured(memoryBytes: number, grown: number): void {
    this.#memoryBytes = memoryBytes;
    const { memoryBytes: limit } = this.#options;
    if (memoryBytes <= limit) return;
    this.#guests.get(grown)?.listener.lost({
      reason: 'lost',
      message: `the memory of this guest grew beyond what its shared thread has for all guests, ${limit} bytes: the run resumes on a dedicated thread`,
      needsOwnThread: true,
    });
  }

  #remove(guest: number, { ended }: Occupant): void {
    this.#guests.delete(guest);
    this.#keepAlive();
    ended?.resolve();
  }

  /** An empty thread does not keep the process alive; after {@link IDLE_MS} the preemption clock stops watching it. */
  #keepAlive(): void {
    const keep = this.#guests.size > 0 && !this.#isGone;
    this.#port.keepAlive(keep);
    if (keep) this.#worker.ref();
    else this.#worker.unref();
    if (keep) this.#unwatch ??= this.#options.clock.watch(this.#words);
    else if (this.#isGone) this.#stopWatching();
    else if (this.#idle !== null) this.#idle.refresh();
    else this.#idle = setTimeout(() => this.#becameIdle(), IDLE_MS).unref();
  }

  #becameIdle(): void {
    if (this.#guests.size > 0 || this.#isGone) return;
    this.#stopWatching();
    this.#options.idle();
  }

  #stopWatching(): void {
    if (this.#idle !== null) clearTimeout(this.#idle);
    this.#idle = null;
    this.#unwatch?.();
    this.#unwatch = null;
  }

  /** Key of a module on the thread: posting the module with each guest would cost more than starting the guest. */
  #module(prepared: Prepared): number {
    const known = this.#modules.get(prepared);
    if (known !== undefined) return known;
    const [oldest] = this.#modules;
    if (oldest !== undefined && this.#modules.size >= MAX_MODULES) {
      this.#modules.delete(oldest[0]);
      this.#port.post(THREAD, 0, ['forget_module', oldest[1]]);
    }
    const key = this.#nextModule++;
    this.#modules.set(prepared, key);
    this.#port.post(THREAD, 0, ['module', key, startMessage(prepared)]);
    return key;
  }

  /** Terminates the thread; `loss` is the reason reported for each of its guests. */
  #gone(loss: (guest: number, occupant: Occupant) => GuestLoss): void {
    if (this.#isGone) return;
    this.#isGone = true;
    void this.#worker.terminate();
    // A thread inside one long instruction cannot be terminated. Its guests do not wait for that: they no longer run code.
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, END_MS);
    void Promise.race([this.#exited, late.promise]).then(async () => {
      clearTimeout(timer);
      await this.#port.close();
      for (const [guest, occupant] of [...this.#guests]) {
        occupant.listener.lost(loss(guest, occupant));
        this.#remove(guest, occupant);
      }
      this.#options.changed();
    });
  }
}

const lost = (why: string): GuestLoss => ({
  reason: 'lost',
  message: `the shared thread of the guest ended: ${why}`,
});

/** Sets of terms that a thread retains; others are posted again. */
const MAX_TERMS = 64;

interface PostedTerms {
  readonly key: number;
  readonly terms: SharedGuestTerms;
}

/** Terms that a thread was sent, by key: posting them with each guest would cost more than starting the guest. */
export class SharedTerms {
  readonly #post: (key: number, terms: SharedGuestTerms) => void;
  readonly #forget: (key: number) => void;
  readonly #known: PostedTerms[] = [];
  #next = 1;

  constructor(post: (key: number, terms: SharedGuestTerms) => void, forget: (key: number) => void) {
    this.#post = post;
    this.#forget = forget;
  }

  /** Key of these terms on the thread; posts them first if the thread does not have them. */
  key({ args, limits, mcpTask, servesStreams, verbose }: SharedGuestTerms): number {
    const terms: SharedGuestTerms = { args, limits, mcpTask, servesStreams, verbose };
    const known = this.#known.findLast((each) => areSame(each.terms, terms));
    if (known !== undefined) return known.key;
    const oldest = this.#known.length < MAX_TERMS ? undefined : this.#known.shift();
    if (oldest !== undefined) this.#forget(oldest.key);
    const key = this.#next++;
    this.#known.push({ key, terms });
    this.#post(key, terms);
    return key;
  }
}

/** Limits and policies are frozen, so they are compared by identity. */
const areSame = (one: SharedGuestTerms, other: SharedGuestTerms): boolean =>
  one.limits === other.limits &&
  one.mcpTask === other.mcpTask &&
  one.servesStreams === other.servesStreams &&
  one.verbose === other.verbose &&
  one.args.length === other.args.length &&
  one.args.every((arg, index) => arg === other.args[index]);
