import {
  COMPUTED_MS_INDEX,
  COUNTER_GUESTS,
  COUNTERS,
  type GuestOwnSpec,
  type GuestSpec,
  type SharedGuestTerms,
} from '../port/guest-spec.ts';
import type { GuestStart, HostMessage, SharedThreadSpec } from '../port/port.ts';
import { CancellationScope, type ScopeListener } from './cancellation-scope.ts';
import type { MessageTarget, ThreadPort } from './hostcalls/host-link.ts';
import { RunningGuest } from './running-guest.ts';
import { GuestYieldPoints, ThreadScheduler } from './scheduler.ts';
import { BufferedOutput, ReplayLogWindow } from './shared-buffers.ts';

/** Guest number of the thread itself. */
const THREAD = 0;

/** A thread that guests share. The host opens guests by message; each ends alone. */
export class SharedThread implements MessageTarget {
  readonly #port: ThreadPort;
  readonly #scheduler: ThreadScheduler;
  readonly #memoryBytes: number;
  /** By the host's keys. */
  readonly #modules = new Map<number, GuestStart>();
  readonly #terms = new Map<number, SharedGuestTerms>();
  readonly #counters = new Map<number, Float64Array<SharedArrayBuffer>>();
  readonly #guests = new Map<number, SharedGuest>();

  constructor(port: ThreadPort, { turns, memoryBytes }: SharedThreadSpec) {
    this.#port = port;
    this.#memoryBytes = memoryBytes;
    this.#scheduler = new ThreadScheduler(turns);
    port.attach(THREAD, this);
    this.#pong(0);
  }

  receive([, , ...message]: HostMessage): void {
    if (message[0] === 'module') this.#modules.set(message[1], message[2]);
    else if (message[0] === 'forget_module') this.#modules.delete(message[1]);
    else if (message[0] === 'terms') this.#terms.set(message[1], message[2]);
    else if (message[0] === 'forget_terms') this.#terms.delete(message[1]);
    else if (message[0] === 'counters') this.#counters.set(message[1], message[2]);
    else if (message[0] === 'ping') this.#pong(message[1]);
    else if (message[0] === 'open') {
      const [, guest, own, terms, module, counters] = message;
      this.#open(guest, { ...known(this.#terms, terms), ...own }, known(this.#modules, module), counters);
    }
  }

  #open(number: number, spec: SharedGuestTerms & GuestOwnSpec, start: GuestStart, counters: number): void {
    const block = known(this.#counters, Math.floor(counters / COUNTER_GUESTS));
    const at = (counters % COUNTER_GUESTS) * COUNTERS;
    const counts = block.subarray(at, at + COUNTERS);
    const guest = new SharedGuest(spec, counts, number, this.#port, this.#scheduler);
    this.#guests.set(number, guest);
    this.#port.attach(number, guest);
    void guest.run(start).then(() => {
      this.#guests.delete(number);
      this.#port.detach(number);
    });
  }

  /** Reports the total linear memory, and the guest that grew most since the total was last within the limit. */
  #pong(ping: number): void {
    let total = 0;
    let grown = 0;
    let most = -1;
    for (const [number, guest] of this.#guests) {
      const growth = guest.measure();
      total += guest.memoryBytes;
      if (growth > most) [most, grown] = [growth, number];
    }
    if (total <= this.#memoryBytes) for (const guest of this.#guests.values()) guest.settle();
    this.#port.post([THREAD, 0, 0, 'pong', ping, total, grown], []);
  }
}

function known<T>(posted: ReadonlyMap<number, T>, key: number): T {
  const found = posted.get(key);
  if (found === undefined) throw new Error(`cannot start the guest: unknown module key ${key}`);
  return found;
}

/** One guest on a shared thread: cancellation, yield points, back pressure and its computing time. */
class SharedGuest implements ScopeListener, MessageTarget {
  readonly #scheduler: ThreadScheduler;
  readonly #guest: number;
  readonly #counts: Float64Array;
  readonly #scope = new CancellationScope(this);
  readonly #output: BufferedOutput;
  readonly #replayWindow: ReplayLogWindow | null;
  readonly #running: RunningGuest;
  #computedMs = 0;
  /** Since when the guest runs; null: it is suspended. */
  #runningSince: number | null = null;
  /** Linear memory when last measured. */
  memoryBytes = 0;
  /** Linear memory when the total of the thread was last within the limit. */
  #settledBytes = 0;

  constructor(spec: GuestSpec, counts: Float64Array, guest: number, port: ThreadPort, scheduler: ThreadScheduler) {
    this.#scheduler = scheduler;
    this.#guest = guest;
    this.#counts = counts;
    const scope = this.#scope;
    const output = new BufferedOutput((stream, chunk) => this.#running.postOutput(stream, chunk));
    const replayWindow = spec.replay === null ? null : new ReplayLogWindow();
    const buffers = replayWindow === null ? [output] : [output, replayWindow];
    this.#output = output;
    this.#replayWindow = replayWindow;
    this.#running = new RunningGuest(spec, {
      ...{ port, guest, counts, replayWindow, scope },
      openOutput: () => output,
      yieldPoints: new GuestYieldPoints(scheduler, guest, scope, buffers, spec.limits.turn_ms),
    });
  }

  /** Measures the linear memory. Returns its growth since {@link settle}. */
  measure(): number {
    this.memoryBytes = this.#running.memories.reduce((sum, { byteLength }) => sum + byteLength, 0);
    return this.memoryBytes - this.#settledBytes;
  }

  settle(): void {
    this.#settledBytes = this.memoryBytes;
  }

  run(start: GuestStart): Promise<void> {
    return this.#running.run(start);
  }

  receive(message: HostMessage): void {
    const [, call, ...reply] = message;
    if (call !== 0) this.#running.link.receive(message);
    else if (reply[0] === 'end') this.#scope.end();
    else if (reply[0] === 'taken') {
      if (reply[1] === 'journal') this.#replayWindow?.acknowledged(reply[2]);
      else this.#output.acknowledged(reply[1], reply[2]);
    }
  }

  resumed(): void {
    this.#scheduler.running(this.#guest);
    this.suspended();
    this.#runningSince = performance.now();
  }

  suspended(): void {
    if (this.#runningSince === null) return;
    this.#computedMs += performance.now() - this.#runningSince;
    this.#runningSince = null;
    this.#counts[COMPUTED_MS_INDEX] = this.#computedMs;
  }

  closed(): void {
    this.#output.flush();
    this.#replayWindow?.close();
  }
}
