import type { Worker } from 'node:worker_threads';
import { type GuestSpec, preemptionWords, type SharedGuestTerms } from '../port/guest-spec.ts';
import type { Limits } from '../port/limits.ts';
import { type GuestMessage, type HostReply, PortViolation } from '../port/port.ts';
import type { Prepared } from '../wasm/prepare.ts';
import { GuestCounters } from './guest-counters.ts';
import { type SlotListener, startMessage } from './guest-slot.ts';
import { sharedWorker, threadFailure } from './guest-worker.ts';
import { Heartbeat, processorTime } from './heartbeat.ts';
import type { PreemptionClock } from './preemption-clock.ts';
import type { GuestLoss } from './run-result.ts';
import { SharedPort } from './shared-port.ts';

/** The number of the thread itself among its guests. */
const THREAD = 0;
const HEAP_MB = 2048;
/** Most of what guests have lives as long as they wait: a small nursery is soon emptied, and costs each of them less. */
const YOUNG_MB = 6;
/** Modules that a thread keeps for guests to come. */
const MAX_MODULES = 256;
/** Messages that are taken to find the answer of a thread that seems to be held. */
const MAX_BEFORE_ANSWER = 64 * 1024;
/** A guest that was told to end and has not, this long after its turn must be over, takes its thread with it. */
const END_MS = 1000;
/** The clock is told of a thread that is empty when it has been for so long: guests that come and go would wake it twice each. */
const IDLE_MS = 1000;

export interface SharedGuest {
  readonly spec: GuestSpec;
  readonly prepared: Prepared;
  /** Of the module. */
  readonly digest: string;
  readonly listener: SlotListener;
}

export interface SharedThreadOptions {
  readonly namespace: string;
  /** Linear memory of all guests together. */
  readonly memoryBytes: number;
  readonly clock: PreemptionClock;
  /** A guest of this module held the thread, or exhausted its heap. */
  readonly quarantined: (digest: string) => void;
  /** The thread has one guest less, or is no more. */
  readonly changed: () => void;
  /** The thread has had no guest for a while. */
  readonly idle: () => void;
}

interface Occupant extends Pick<SharedGuest, 'digest' | 'listener'> {
  readonly limits: Limits;
  /** Null: nobody waits for its end. */
  ended: { readonly promise: Promise<void>; readonly resolve: () => void } | null;
}

/** Where a guest is on its thread. */
export interface ThreadPlacement {
  readonly guest: number;
  readonly counters: number;
}

/** The host's side of a thread that guests share. */
export class SharedGuestThread {
  readonly namespace: string;
  readonly turns = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  readonly #words = new Int32Array(this.turns.buffer);
  readonly #options: SharedThreadOptions;
  readonly #worker: Worker;
  readonly #port: SharedPort;
  readonly #exited: Promise<void>;
  readonly #heartbeat: Heartbeat;
  readonly #guests = new Map<number, Occupant>();
  readonly #modules = new Map<Prepared, number>();
  readonly #terms = new SharedTerms(
    (key, terms) => this.#port.say(THREAD, 0, ['terms', key, terms]),
    (key) => this.#port.say(THREAD, 0, ['forget_terms', key]),
  );
  /** What its guests count. */
  readonly counters = new GuestCounters((block, counters) => this.#port.say(THREAD, 0, ['counters', block, counters]));
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
    this.#port = new SharedPort(port, {
      receive: (message) => this.#receive(message),
      onEvents: (guest, events) => this.#guests.get(guest)?.listener.onEvents?.(events),
      violated: (message) => this.#gone(() => ({ reason: 'internal', message })),
    });
    this.#heartbeat = new Heartbeat((ping) => this.#port.say(THREAD, 0, ['ping', ping]), processorTime(worker));
    void failed.then((error) => this.#failed(error));
    void exited.then(() => this.#gone(() => lost('it exited unexpectedly')));
    this.#keepAlive();
  }

  get guests(): number {
    return this.#guests.size;
  }

  /** As its thread last told. */
  get memoryBytes(): number {
    return this.#memoryBytes;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** Seats a guest and starts it. Its counters are to be given back. */
  open({ spec, prepared, digest, listener }: SharedGuest): ThreadPlacement {
    const guest = this.#nextGuest++;
    this.#guests.set(guest, { digest, listener, limits: spec.limits, ended: null });
    this.#keepAlive();
    const { env, replay, recordedValues } = spec;
    const counters = this.counters.take();
    const [terms, module] = [this.#terms.key(spec), this.#module(prepared)];
    this.#port.say(THREAD, 0, ['open', guest, { env, replay, recordedValues }, terms, module, counters]);
    return { guest, counters };
  }

  say(guest: number, call: number, reply: HostReply): void {
    if (this.#guests.has(guest)) this.#port.say(guest, call, reply);
  }

  /** Ends one guest; the others do not notice. */
  async end(guest: number): Promise<void> {
    const occupant = this.#guests.get(guest);
    if (occupant === undefined) return;
    this.#port.say(guest, 0, ['end']);
    occupant.ended ??= Promise.withResolvers<void>();
    const { promise: ended } = occupant.ended;
    await Promise.race([this.#booted.promise, ended]);
    const timer = setTimeout(() => this.#notEnded(guest), occupant.limits.turn_ms + END_MS);
    await ended;
    clearTimeout(timer);
  }

  /** Asks whether it still turns round, and ends it if a guest holds it. */
  beat(now: number): void {
    if (this.#isGone || this.#guests.size === 0) return;
    const silentMs = this.#heartbeat.beat(now);
    if (silentMs === 0) return;
    const turnMs = this.#turnMs();
    if (silentMs < turnMs) return;
    this.#port.takeArrived(MAX_BEFORE_ANSWER); // it may have come while this thread was busy
    void this.#heartbeat.isHeld(now, turnMs).then((isHeld) => isHeld && this.#held());
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

  #held(): void {
    const holder = this.#holder();
    const turnMs = this.#guests.get(holder)?.limits.turn_ms;
    this.#quarantine(holder, `the guest did not yield for limits.turn_ms = ${turnMs}`);
  }

  /** A guest did not end in time. If its thread does not answer either, the guest that holds the thread is quarantined. */
  #notEnded(guest: number): void {
    this.#port.takeArrived(MAX_BEFORE_ANSWER); // its end may have come while this thread was busy
    if (!this.#guests.has(guest)) return;
    const holder = this.#holder();
    const guilty = this.#heartbeat.isSilent && this.#guests.has(holder) ? holder : guest;
    this.#quarantine(guilty, 'the guest could not be stopped');
  }

  /** Terminates the thread and quarantines the module of the guest that blocked it. */
  #quarantine(guilty: number, why: string): void {
    if (this.#isGone) return;
    const occupant = this.#guests.get(guilty);
    if (occupant !== undefined) this.#options.quarantined(occupant.digest);
    this.#gone((guest) =>
      guest === guilty
        ? { reason: 'lost', message: `${why}: from now on its module gets a dedicated thread` }
        : lost('another guest blocked it'),
    );
  }

  #failed(error: NodeJS.ErrnoException): void {
    const holder = this.#holder();
    const guilty = this.#guests.get(holder);
    const failure = threadFailure(error, HEAP_MB);
    // What the system lacks is no fault of a guest, and each is retried for that reason.
    const isOfSystem = failure.systemError != null;
    if (guilty !== undefined && !isOfSystem) this.#options.quarantined(guilty.digest);
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

  /** Only the guest that has grown is ended: the others have what they had when there was room for it. */
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

  /** An idle thread keeps no process alive, and after a while nobody tells it the time. */
  #keepAlive(): void {
    const keep = this.#guests.size > 0 && !this.#isGone;
    this.#port.keepsAlive(keep);
    if (keep) this.#worker.ref();
    else this.#worker.unref();
    if (keep) this.#unwatch ??= this.#options.clock.watch(this.#words);
    else if (this.#isGone) this.#stopWatching();
    else if (this.#idle !== null) this.#idle.refresh();
    else this.#idle = setTimeout(() => this.#rests(), IDLE_MS).unref();
  }

  #rests(): void {
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

  /** The thread knows a module by its number: posting it with each guest would cost more than starting one. */
  #module(prepared: Prepared): number {
    const known = this.#modules.get(prepared);
    if (known !== undefined) return known;
    const [oldest] = this.#modules;
    if (oldest !== undefined && this.#modules.size >= MAX_MODULES) {
      this.#modules.delete(oldest[0]);
      this.#port.say(THREAD, 0, ['forget_module', oldest[1]]);
    }
    const key = this.#nextModule++;
    this.#modules.set(prepared, key);
    this.#port.say(THREAD, 0, ['module', key, startMessage(prepared)]);
    return key;
  }

  /** Ends the thread; `loss` says what each of its guests is told. */
  #gone(loss: (guest: number, occupant: Occupant) => GuestLoss): void {
    if (this.#isGone) return;
    this.#isGone = true;
    void this.#worker.terminate();
    // In one long instruction a thread cannot be ended; then its guests need not wait for that, for nothing of them runs.
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

/** Tasks whose runs come in turns on one thread; beyond it a thread is told again. */
const MAX_TERMS = 64;

interface Known {
  readonly key: number;
  readonly terms: SharedGuestTerms;
}

/** What a thread was told that many of its guests have in common: sending it with each would cost more than starting one. */
export class SharedTerms {
  readonly #tell: (key: number, terms: SharedGuestTerms) => void;
  readonly #forget: (key: number) => void;
  readonly #known: Known[] = [];
  #next = 1;

  constructor(tell: (key: number, terms: SharedGuestTerms) => void, forget: (key: number) => void) {
    this.#tell = tell;
    this.#forget = forget;
  }

  /** The number by which the thread knows them. */
  key({ args, limits, mcpTask, servesStreams, verbose }: SharedGuestTerms): number {
    const terms: SharedGuestTerms = { args, limits, mcpTask, servesStreams, verbose };
    const known = this.#known.findLast((each) => areSame(each.terms, terms));
    if (known !== undefined) return known.key;
    const oldest = this.#known.length < MAX_TERMS ? undefined : this.#known.shift();
    if (oldest !== undefined) this.#forget(oldest.key);
    const key = this.#next++;
    this.#known.push({ key, terms });
    this.#tell(key, terms);
    return key;
  }
}

/** Limits and policies are frozen: one that is another object may be another. */
const areSame = (one: SharedGuestTerms, other: SharedGuestTerms): boolean =>
  one.limits === other.limits &&
  one.mcpTask === other.mcpTask &&
  one.servesStreams === other.servesStreams &&
  one.verbose === other.verbose &&
  one.args.length === other.args.length &&
  one.args.every((arg, index) => arg === other.args[index]);
