import type { HostReply } from '../port/port.ts';
import type { Prepared } from '../wasm/prepare.ts';
import type { GuestSeat, SeatedGuest, SeatListener } from './guest-seat.ts';
import { moduleDigest } from './module-cache.ts';
import { OwnThread } from './own-thread.ts';
import type { Isolation } from './run-result.ts';
import type { SharedGuest, SharedGuestThread, SharedSeat } from './shared-guest-thread.ts';

/** A guest on a thread that it shares. */
export interface SharedPlace extends SharedSeat {
  readonly thread: SharedGuestThread;
  /** Linear memories that it has. */
  readonly memories: number;
}

/** The threads as a seat uses them. */
export interface SeatingThreads {
  refusal(prepared: Prepared, digest: string): string | null;
  /** @throws NoRoomError, Error */
  seat(namespace: string, guest: SharedGuest): Promise<SharedPlace>;
  /** To be called once, when the guest has ended. */
  free(place: SharedPlace): void;
}

export interface PoolGuest extends SeatedGuest {
  readonly namespace: string;
  readonly wasm: Uint8Array | Promise<Uint8Array>;
  /** Why it must not share a thread; null: it may. */
  readonly unshareable: string | null;
}

const SHARED: Isolation = { kind: 'shared', why: null };
const NONE: Isolation = { kind: 'none', why: null };

/** No thread had room for a guest in time. */
export class NoRoomError extends Error {}

/** A place on a thread that guests share, or one of its own for a guest that cannot be seated there. */
export class PoolSeat implements GuestSeat {
  readonly #threads: SeatingThreads;
  readonly #guest: PoolGuest;
  #listener: SeatListener | null = null;
  #own: OwnThread | null = null;
  #place: SharedPlace | null = null;
  /** What it had called when it left its place. */
  #called: Record<string, number> = {};
  #hasLeft = false;
  #hadNoRoom = false;

  constructor(threads: SeatingThreads, guest: PoolGuest) {
    this.#threads = threads;
    this.#guest = guest;
  }

  get isolation(): Isolation {
    return this.#own?.isolation ?? (this.#hadNoRoom ? NONE : SHARED);
  }

  listen(listener: SeatListener): void {
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
    this.#own = new OwnThread(this.#guest, why);
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
