import type { AloneSpec, GuestSpec } from '../port/guest-spec.ts';
import type { GuestMessage, GuestStart, HostReply } from '../port/port.ts';
import type { Prepared } from '../wasm/prepare.ts';
import type { Isolation, RunReason } from './run-result.ts';

/** Why there is nothing more to hear of a guest. */
export interface SeatLoss {
  readonly reason: Extract<RunReason, 'internal' | 'memory' | 'lost'>;
  readonly message: string;
  /** Code of the system error that it comes from. @default none */
  readonly systemError?: string | null;
  /** Whether the run must resume on a dedicated thread. @default false */
  readonly needsOwnThread?: true;
}

export interface SeatListener {
  /** Whatever it throws is taken for a fault of the thread. */
  receive(message: GuestMessage): void;
  /** Takes what the guest's tape has written, before the message that it came with; null: it has none. */
  readonly taped: ((events: string) => void) | null;
  lost(loss: SeatLoss): void;
}

/** What a guest is started with, on whichever thread it gets. */
export interface SeatedGuest {
  spec(): GuestSpec;
  aloneSpec(): Omit<AloneSpec, 'hostcallCounts'>;
}

/** A guest's place on a thread, as its run uses it. */
export interface GuestSeat {
  /** Known for good when the guest has started. */
  readonly isolation: Isolation;
  listen(listener: SeatListener): void;
  /** @throws whatever keeps the guest from being seated */
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
