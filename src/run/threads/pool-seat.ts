import type { Prepared } from '../../load/prepare.ts';
import type { GuestSpec } from '../../protocol/guest-spec.ts';
import type { HostReply } from '../../protocol/port.ts';
import type { Isolation } from '../run-result.ts';
import type { GuestSeat, SeatListener } from './guest-seat.ts';
import { moduleDigest } from './module-cache.ts';
import { OwnThread } from './own-thread.ts';
import type { SharedGuest, SharedGuestThread } from './shared-guest-thread.ts';

/** A guest on a thread that it shares. */
export interface SharedPlace {
  readonly thread: SharedGuestThread;
  readonly guest: number;
  /** To be called when the guest has ended. */
  readonly free: () => void;
}

/** The threads as a seat uses them. */
export interface SeatingThreads {
  refusal(prepared: Prepared, digest: string): string | null;
  seat(namespace: string, guest: SharedGuest): Promise<SharedPlace>;
}

export interface PoolGuest {
  readonly namespace: string;
  readonly wasm: Uint8Array | Promise<Uint8Array>;
  /** What the guest is started with, for the kind of thread that it gets. */
  readonly spec: (kind: Isolation['kind']) => GuestSpec;
}

/** A place on a thread that guests share, or one of its own for a guest that cannot be seated there. */
export class PoolSeat implements GuestSeat {
  readonly #threads: SeatingThreads;
  readonly #guest: PoolGuest;
  #listener: SeatListener | undefined;
  #own: OwnThread | undefined;
  #place: SharedPlace | undefined;
  #computed: Float64Array | null = null;
  #hasLeft = false;

  constructor(threads: SeatingThreads, guest: PoolGuest) {
    this.#threads = threads;
    this.#guest = guest;
  }

  get isolation(): Isolation {
    return this.#own?.isolation ?? { kind: 'shared', why: null };
  }

  listen(listener: SeatListener): void {
    this.#listener = listener;
  }

  async start(prepared: Prepared): Promise<void> {
    const listener = this.#listener;
    if (listener === undefined) throw new Error('a guest was started that nobody listens to');
    const { namespace, wasm, spec } = this.#guest;
    const digest = moduleDigest(await wasm);
    const why = this.#threads.refusal(prepared, digest);
    if (why === null) {
      const shared = spec('shared');
      this.#computed = shared.computedMs;
      const place = await this.#threads.seat(namespace, { spec: shared, prepared, digest, listener });
      this.#place = place;
      if (this.#hasLeft) await this.#leavePlace(place);
      return;
    }
    if (this.#hasLeft) return;
    this.#own = new OwnThread(spec('thread'), why);
    this.#own.listen(listener);
    await this.#own.start(prepared);
  }

  reply(call: number, reply: HostReply): void {
    if (this.#own !== undefined) this.#own.reply(call, reply);
    else this.#place?.thread.say(this.#place.guest, call, reply);
  }

  async computedMs(): Promise<number | null> {
    if (this.#own !== undefined) return this.#own.computedMs();
    const [computed = Number.NaN] = this.#computed ?? [];
    return computed >= 0 ? computed : null;
  }

  async leave(): Promise<void> {
    this.#hasLeft = true;
    await this.#own?.leave();
    if (this.#place !== undefined) await this.#leavePlace(this.#place);
  }

  async #leavePlace({ thread, guest, free }: SharedPlace): Promise<void> {
    await thread.end(guest);
    free();
  }
}
