import type { GuestOwn, GuestTerms } from '../port/guest-spec.ts';
import type { GuestStart, HostMessage } from '../port/port.ts';
import { COUNTER_GUESTS, type SharedThreadSpec } from '../port/thread-spec.ts';
import { COUNTERS } from './binding/hostcall-counts.ts';
import type { ThreadPort } from './hostcalls/thread-port.ts';
import { SharedGuest } from './shared-guest.ts';
import { ThreadTurns } from './thread-turns.ts';

/** The number of the thread itself among its guests. */
const THREAD = 0;

/** A thread that guests share: they come and go by message, and each is ended alone. */
export class SharedThread {
  readonly #port: ThreadPort;
  readonly #turns: ThreadTurns;
  /** What guests are started with, by the host's numbers for it. */
  readonly #modules = new Map<number, GuestStart>();
  readonly #terms = new Map<number, GuestTerms>();
  readonly #counters = new Map<number, Float64Array<SharedArrayBuffer>>();
  readonly #guests = new Map<number, SharedGuest>();

  /** What all guests together may have. */
  readonly #memoryBytes: number;

  constructor(port: ThreadPort, { turns, memoryBytes }: SharedThreadSpec) {
    this.#port = port;
    this.#memoryBytes = memoryBytes;
    this.#turns = new ThreadTurns(turns);
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

  #open(number: number, spec: GuestTerms & GuestOwn, start: GuestStart, counters: number): void {
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
