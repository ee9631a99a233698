import type { Worker } from 'node:worker_threads';
import { namedCounts, sharedCounts } from '../../guest/binding/hostcall-counts.ts';
import type { Prepared } from '../../load/prepare.ts';
import type { HostReply } from '../../protocol/port.ts';
import { GuestPort } from '../guest-port.ts';
import type { Isolation } from '../run-result.ts';
import { type GuestSeat, type SeatedGuest, type SeatListener, startMessage } from './guest-seat.ts';
import { startWorker, threadFailure } from './guest-worker.ts';

const GUEST = 0;

/** A thread for one guest. It boots at once, while the module compiles. */
export class OwnThread implements GuestSeat {
  readonly isolation: Isolation;
  readonly #worker: Worker;
  readonly #port: GuestPort;
  readonly #exited: Promise<void>;
  readonly #counts = sharedCounts();

  constructor(guest: SeatedGuest, why: string | null = null) {
    this.isolation = { kind: 'thread', why };
    const spec = { ...guest.aloneSpec(), hostcallCounts: this.#counts };
    const { worker, port, exited } = startWorker({ guest: spec, turns: null }, 'spear-guest');
    this.#worker = worker;
    this.#port = new GuestPort(port, GUEST);
    this.#exited = exited;
  }

  listen(listener: SeatListener): void {
    void this.#exited.then(() => {
      this.#port.drain();
      listener.lost({ reason: 'internal', message: 'the guest thread ended without a word' });
    });
    this.#worker.on('error', (error: NodeJS.ErrnoException) => listener.lost(threadFailure(error)));
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
    const used = await this.#worker.cpuUsage?.().catch(() => null);
    return used ? (used.user + used.system) / 1_000 : null;
  }

  async leave(): Promise<void> {
    await this.#worker.terminate();
    await this.#exited;
    await this.#port.close();
  }
}
