import type { DedicatedSpec, GuestSpec } from '../port/guest-spec.ts';
import type { GuestMessage, GuestStart, HostReply } from '../port/port.ts';
import type { Prepared } from '../wasm/prepare.ts';
import { namedCounts, newCounters } from './guest-counters.ts';
import { GuestPort } from './guest-port.ts';
import { type GuestWorker, ownWorker, threadFailure } from './guest-worker.ts';
import type { GuestLoss, Isolation } from './run-result.ts';

export interface SlotListener {
  /** Whatever this throws counts as a fault of the guest thread. */
  receive(message: GuestMessage): void;
  /** Takes journal events of the guest, before the message they came with; null: the guest has no journal. */
  readonly recordEvents: ((events: string) => void) | null;
  /** The guest ended without a report of its own. */
  lost(loss: GuestLoss): void;
}

/** The start parameters of a guest, for either kind of thread. */
export interface GuestSpecSource {
  spec(): GuestSpec;
  dedicatedSpec(): Omit<DedicatedSpec, 'hostcallCounts'>;
}

/** A guest's slot on a thread, as its run uses it. */
export interface GuestSlot {
  /** Final once the guest has started. */
  readonly isolation: Isolation;
  listen(listener: SlotListener): void;
  /** @throws the error that kept the guest from getting a thread */
  start(prepared: Prepared): Promise<void>;
  /** Hostcalls made so far, by name. */
  hostcalls(): Record<string, number>;
  /** Milliseconds that the guest has computed; null: unknown. */
  computedMs(): Promise<number | null>;
  /** Sends a reply; replies of one macrotask are batched. */
  reply(call: number, reply: HostReply): void;
  /** Ends the guest if it still runs. Resolves when all its messages were received and its thread runs nothing of it. */
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

/** A thread for one guest. It boots while the module compiles. */
export class DedicatedThread implements GuestSlot {
  readonly isolation: Isolation;
  readonly #thread: GuestWorker;
  readonly #port: GuestPort;
  readonly #counts = newCounters(1);

  constructor(guest: GuestSpecSource, why: string | null = null) {
    this.isolation = { kind: 'thread', why };
    this.#thread = ownWorker({ ...guest.dedicatedSpec(), hostcallCounts: this.#counts });
    this.#port = new GuestPort(this.#thread.port);
  }

  listen(listener: SlotListener): void {
    void this.#thread.exited.then(() => {
      this.#port.takeArrived();
      listener.lost({ reason: 'internal', message: 'the guest thread exited unexpectedly' });
    });
    void this.#thread.failed.then((error) => listener.lost(threadFailure(error)));
    const { recordEvents } = listener;
    this.#port.listen({
      receive: (message) => listener.receive(message),
      recordEvents: recordEvents && ((_, events) => recordEvents(events)),
      violated: (message) => listener.lost({ reason: 'internal', message }),
    });
  }

  async start(prepared: Prepared): Promise<void> {
    this.#port.post(GUEST, 0, startMessage(prepared));
  }

  reply(call: number, reply: HostReply): void {
    this.#port.post(GUEST, call, reply);
  }

  hostcalls(): Record<string, number> {
    return namedCounts(this.#counts);
  }

  async computedMs(): Promise<number | null> {
    // Null if this Node has no cpuUsage, or the thread is gone.
    const used = await this.#thread.worker.cpuUsage?.().catch(() => null);
    return used ? (used.user + used.system) / 1_000 : null;
  }

  async leave(): Promise<void> {
    await this.#thread.worker.terminate();
    await this.#thread.exited;
    await this.#port.close();
  }
}
