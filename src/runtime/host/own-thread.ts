import { namedCounts, sharedCounts } from '../guest/binding/hostcall-counts.ts';
import type { HostReply } from '../port/port.ts';
import type { Prepared } from '../wasm/prepare.ts';
import { GuestPort } from './guest-port.ts';
import { type GuestSeat, type SeatedGuest, type SeatListener, startMessage } from './guest-seat.ts';
import { type GuestWorker, ownWorker, threadFailure } from './guest-worker.ts';
import type { Isolation } from './run-result.ts';

const GUEST = 0;

/** A thread for one guest. It boots at once, while the module compiles. */
export class OwnThread implements GuestSeat {
  readonly isolation: Isolation;
  readonly #thread: GuestWorker;
  readonly #port: GuestPort;
  readonly #counts = sharedCounts();

  constructor(guest: SeatedGuest, why: string | null = null) {
    this.isolation = { kind: 'thread', why };
    this.#thread = ownWorker({ ...guest.aloneSpec(), hostcallCounts: this.#counts });
    this.#port = new GuestPort(this.#thread.port, GUEST);
  }

  listen(listener: SeatListener): void {
    void this.#thread.exited.then(() => {
      this.#port.drain();
      listener.lost({ reason: 'internal', message: 'the guest thread exited unexpectedly' });
    });
    void this.#thread.failed.then((error) => listener.lost(threadFailure(error)));
    if (listener.taped !== null) this.#port.listenToTape(listener.taped);
    this.#port.listen(
      (message) => listener.receive(message),
      (message) => listener.lost({ reason: 'internal', message }),
    );
  }

  async start(prepared: Prepared): Promise<void> {
    this.#port.reply(0, startMessage(prepared));
  }

  reply(call: number, reply: HostReply): void {
    this.#port.reply(call, reply);
  }

  hostcalls(): Record<string, number> {
    return namedCounts(this.#counts);
  }

  async computedMs(): Promise<number | null> {
    // An engine that does not tell, or a thread that is gone: then there is nothing to count.
    const used = await this.#thread.worker.cpuUsage?.().catch(() => null);
    return used ? (used.user + used.system) / 1_000 : null;
  }

  async leave(): Promise<void> {
    await this.#thread.worker.terminate();
    await this.#thread.exited;
    await this.#port.close();
  }
}
