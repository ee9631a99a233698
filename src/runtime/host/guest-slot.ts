import { namedCounts, sharedCounts } from '../guest/binding/hostcall-counts.ts';
import type { DedicatedSpec, GuestSpec } from '../port/guest-spec.ts';
import type { GuestMessage, GuestStart, HostReply } from '../port/port.ts';
import type { Prepared } from '../wasm/prepare.ts';
import { GuestPort } from './guest-port.ts';
import { type GuestWorker, ownWorker, threadFailure } from './guest-worker.ts';
import type { GuestLoss, Isolation } from './run-result.ts';

export interface SlotListener {
  /** Whatever it throws is taken for a fault of the thread. */
  receive(message: GuestMessage): void;
  /** Takes what the guest's replayLog has written, before the message that it came with; null: it has none. */
  readonly onEvents: ((events: string) => void) | null;
  lost(loss: GuestLoss): void;
}

/** What a guest is started with, on whichever thread it gets. */
export interface GuestSpecSource {
  spec(): GuestSpec;
  dedicatedSpec(): Omit<DedicatedSpec, 'hostcallCounts'>;
}

/** A guest's place on a thread, as its run uses it. */
export interface GuestSlot {
  /** Known for good when the guest has started. */
  readonly isolation: Isolation;
  listen(listener: SlotListener): void;
  /** @throws whatever keeps the guest from being placed */
  start(prepared: Prepared): Promise<void>;
  /** The calls that the guest has made so far, by name. */
  hostcalls(): Record<string, number>;
  /** What the guest has computed so far; null: nobody can tell. */
  computedMs(): Promise<number | null>;
  /** What is given in one breath goes together. */
  reply(call: number, reply: HostReply): void;
  /** Ends the guest if it has not ended; afterwards nothing of it is on a thread, and all that it said was heard. */
  leave(): Promise<void>;
}

export function startMessage(prepared: Prepared): GuestStart {
  if (prepared.kind === 'core') {
    const { module, unknownImports, turns } = prepared;
    return ['start', { module, unknownImports, turns }];
  }
  const { glue, coreModules, imports, entry, lane, turns } = prepared;
  return ['start_component', { glue, coreModules, imports, entry, turns, fastLane: lane.kind === 'fast' }];
}

const GUEST = 0;

/** A thread for one guest. It boots at once, while the module compiles. */
export class DedicatedThread implements GuestSlot {
  readonly isolation: Isolation;
  readonly #thread: GuestWorker;
  readonly #port: GuestPort;
  readonly #counts = sharedCounts();

  constructor(guest: GuestSpecSource, why: string | null = null) {
    this.isolation = { kind: 'thread', why };
    this.#thread = ownWorker({ ...guest.dedicatedSpec(), hostcallCounts: this.#counts });
    this.#port = new GuestPort(this.#thread.port, GUEST);
  }

  listen(listener: SlotListener): void {
    void this.#thread.exited.then(() => {
      this.#port.drain();
      listener.lost({ reason: 'internal', message: 'the guest thread exited unexpectedly' });
    });
    void this.#thread.failed.then((error) => listener.lost(threadFailure(error)));
    if (listener.onEvents !== null) this.#port.listenToEvents(listener.onEvents);
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
