import {
  COUNTER_GUESTS,
  type GuestOwnSpec,
  type GuestSpec,
  type SharedGuestTerms,
  type SharedThreadSpec,
  type StandardStream,
} from '../port/guest-spec.ts';
import type { GuestStart, HostMessage } from '../port/port.ts';
import { COMPUTED_AT, COUNTERS } from './binding/hostcall-counts.ts';
import { CancellationScope, type ScopeListener } from './cancellation-scope.ts';
import type { MessageTarget, ThreadPort } from './hostcalls/host-link.ts';
import { RunningGuest } from './running-guest.ts';
import { GuestYieldPoints, ThreadScheduler } from './scheduler.ts';
import { BufferedOutput, type OutputPoster, ReplayLogWindow } from './shared-buffers.ts';

/** The number of the thread itself among its guests. */
const THREAD = 0;

/** A thread that guests share: they come and go by message, and each is ended alone. */
export class SharedThread {
  readonly #port: ThreadPort;
  readonly #turns: ThreadScheduler;
  /** What guests are started with, by the host's numbers for it. */
  readonly #modules = new Map<number, GuestStart>();
  readonly #terms = new Map<number, SharedGuestTerms>();
  readonly #counters = new Map<number, Float64Array<SharedArrayBuffer>>();
  readonly #guests = new Map<number, SharedGuest>();

  /** What all guests together may have. */
  readonly #memoryBytes: number;

  constructor(port: ThreadPort, { turns, memoryBytes }: SharedThreadSpec) {
    this.#port = port;
    this.#memoryBytes = memoryBytes;
    this.#turns = new ThreadScheduler(turns);
    port.attach(THREAD, this);
    this.#pong(0);
  }

  hear([, , ...word]: HostMessage): void {
    if (word[0] === 'module') this.#modules.set(word[1], word[2]);
    else if (word[0] === 'forget_module') this.#modules.delete(word[1]);
    else if (word[0] === 'terms') this.#terms.set(word[1], word[2]);
    else if (word[0] === 'forget_terms') this.#terms.delete(word[1]);
    else if (word[0] === 'counters') this.#counters.set(word[1], word[2]);
    else if (word[0] === 'ping') this.#pong(word[1]);
    else if (word[0] === 'open') {
      const [, guest, own, terms, module, counters] = word;
      this.#open(guest, { ...known(this.#terms, terms), ...own }, known(this.#modules, module), counters);
    }
  }

  #open(number: number, spec: SharedGuestTerms & GuestOwnSpec, start: GuestStart, counters: number): void {
    const block = known(this.#counters, Math.floor(counters / COUNTER_GUESTS));
    const at = (counters % COUNTER_GUESTS) * COUNTERS;
    const counts = block.subarray(at, at + COUNTERS);
    const guest = new SharedGuest(spec, counts, number, this.#port, this.#turns);
    this.#guests.set(number, guest);
    this.#port.attach(number, guest);
    void guest.run(start).then(() => {
      this.#guests.delete(number);
      this.#port.detach(number);
    });
  }

  /** Says how much memory the guests have, and which of them has grown most since it was last within the limit. */
  #pong(ping: number): void {
    let total = 0;
    let grown = 0;
    let most = -1;
    for (const [number, guest] of this.#guests) {
      const growth = guest.measure();
      total += guest.measuredBytes;
      if (growth > most) [most, grown] = [growth, number];
    }
    if (total <= this.#memoryBytes) for (const guest of this.#guests.values()) guest.settle();
    this.#port.post([THREAD, 0, 0, 'pong', ping, total, grown], []);
  }
}

function known<T>(told: ReadonlyMap<number, T>, key: number): T {
  const found = told.get(key);
  if (found === undefined) throw new Error(`cannot start the guest: unknown module key ${key}`);
  return found;
}

/** One guest of many on its thread. */
export class SharedGuest implements ScopeListener, OutputPoster, MessageTarget {
  readonly #turns: ThreadScheduler;
  readonly #guest: number;
  readonly #computing: ProcessorClock;
  readonly #scope = new CancellationScope(this);
  readonly #output: BufferedOutput;
  readonly #replayLog: ReplayLogWindow | null;
  readonly #running: RunningGuest;
  /** Linear memory that it had when it was last measured, and when all guests of the thread were last within their limit. */
  measuredBytes = 0;
  #settledBytes = 0;

  /** `counts`: where it counts its calls and what it computes. */
  constructor(spec: GuestSpec, counts: Float64Array, guest: number, port: ThreadPort, turns: ThreadScheduler) {
    this.#turns = turns;
    this.#guest = guest;
    this.#computing = new ProcessorClock(counts);
    const output = new BufferedOutput(this);
    const replayLog = spec.replay === null ? null : new ReplayLogWindow();
    const scope = this.#scope;
    const rooms = replayLog === null ? [output] : [output, replayLog];
    const yieldPoints = new GuestYieldPoints(turns, guest, scope, rooms, spec.limits.turn_ms);
    this.#output = output;
    this.#replayLog = replayLog;
    const openOutput = () => output;
    this.#running = new RunningGuest(spec, {
      port,
      guest,
      counts,
      openOutput,
      replayWindow: replayLog,
      scope,
      yieldPoints,
    });
  }

  /** How much its memory has grown since {@link settle}. */
  measure(): number {
    this.measuredBytes = this.#running.memories.reduce((sum, { byteLength }) => sum + byteLength, 0);
    return this.measuredBytes - this.#settledBytes;
  }

  settle(): void {
    this.#settledBytes = this.measuredBytes;
  }

  run(start: GuestStart): Promise<void> {
    return this.#running.run(start);
  }

  hear(message: HostMessage): void {
    const [, call, ...word] = message;
    if (call !== 0) this.#running.link.receive(message);
    else if (word[0] === 'end') this.#scope.end();
    else if (word[0] === 'taken') {
      if (word[1] === 'replayLog') this.#replayLog?.taken(word[2]);
      else this.#output.taken(word[1], word[2]);
    }
  }

  tellOutput(stream: StandardStream, chunk: Uint8Array<ArrayBuffer>): void {
    this.#running.tellOutput(stream, chunk);
  }

  resumes(): void {
    this.#turns.holds(this.#guest);
    this.#computing.begins();
  }

  waits(): void {
    this.#computing.ends();
  }

  closed(): void {
    this.#output.flush();
    this.#replayLog?.close();
  }
}

/** What one guest of many has computed: between its waits, for the host to see. */
export class ProcessorClock {
  readonly #told: Float64Array;
  #sumMs = 0;
  #since: number | null = null;

  /** `told`: where the guest counts. */
  constructor(told: Float64Array) {
    this.#told = told;
  }

  begins(): void {
    this.ends();
    this.#since = performance.now();
  }

  ends(): void {
    if (this.#since === null) return;
    this.#sumMs += performance.now() - this.#since;
    this.#since = null;
    this.#told[COMPUTED_AT] = this.#sumMs;
  }
}
