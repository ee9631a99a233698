import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { isEventsText } from '../port/journal-events.ts';
import {
  type GuestMessage,
  type HostMessage,
  type HostReply,
  isBatch,
  PortViolation,
  parseGuestMessage,
} from '../port/port.ts';

/**
 * Messages taken per event: an event for each would cost more than most of them, and a guest that keeps posting must not
 * starve this thread's timers and its other guests.
 */
const MAX_TAKEN = 256;
/** Replies posted together at most: the guest thread works on these while the host makes others. */
const MAX_BATCHED = 64;

export interface GuestPortListener {
  /** Whatever this throws counts as a violation by the guest thread. */
  readonly receive: (message: GuestMessage) => void;
  /** Takes journal events of one guest, before the message they came with; null: the guest has no journal. */
  readonly recordEvents: ((guest: number, events: string) => void) | null;
  /** The guest thread sent something that the protocol does not allow. */
  readonly violated: (why: string) => void;
}

/** Host end of the port to one guest thread, dedicated or shared. Every message is validated like network input. */
export class GuestPort {
  readonly #port: MessagePort;
  readonly #closed: Promise<void>;
  #listener: GuestPortListener = { receive: () => {}, recordEvents: null, violated: () => {} };
  #batch: HostMessage[] = [];

  constructor(port: MessagePort) {
    this.#port = port;
    this.#closed = new Promise((resolve) => port.once('close', resolve));
  }

  listen(listener: GuestPortListener): void {
    this.#listener = listener;
    this.#port.on('messageerror', () => listener.violated('a message of the guest thread cannot be deserialized'));
    this.#port.on('message', (raw: unknown) => {
      this.#take(raw);
      this.takeArrived(MAX_TAKEN);
    });
  }

  /** Takes messages that have arrived, synchronously. */
  takeArrived(most = Number.POSITIVE_INFINITY): void {
    for (let left = most; left > 0; left--) {
      const next = receiveMessageOnPort(this.#port);
      if (next === undefined) return;
      this.#take(next.message);
    }
  }

  /**
   * Posts a reply. Replies of one macrotask are batched and posted in its microtasks, because each message may have to
   * wake the guest thread.
   */
  post(guest: number, call: number, reply: HostReply): void {
    const batched = this.#batch.push([guest, call, ...reply]);
    if (batched === 1) queueMicrotask(this.#flush);
    else if (batched >= MAX_BATCHED) this.#flush();
  }

  /** Whether this port keeps the process alive. */
  keepAlive(keep: boolean): void {
    if (keep) this.#port.ref();
    else this.#port.unref();
  }

  /** Takes what has arrived, then closes the port. Precondition: the thread has ended, or sends nothing more. */
  close(): Promise<void> {
    this.takeArrived();
    this.#flush();
    this.#port.close();
    return this.#closed;
  }

  readonly #flush = (): void => {
    const batch = this.#batch;
    this.#batch = [];
    if (batch.length > 1) this.#port.postMessage([batch]);
    else if (batch.length === 1) this.#port.postMessage(batch[0]);
  };

  #take(raw: unknown): void {
    const { receive, recordEvents, violated } = this.#listener;
    try {
      if (recordEvents !== null && hasEvents(raw)) this.#takeWithEvents(raw[0], raw[1], recordEvents);
      else for (const message of messagesIn(raw)) receive(parseGuestMessage(message));
    } catch (error) {
      violated((error as Error).message);
    }
  }

  /** Journal events and the messages posted with them belong to the same guest. */
  #takeWithEvents(events: string, posted: unknown, record: (guest: number, events: string) => void): void {
    if (!isEventsText(events)) throw new PortViolation('malformed journal events');
    let owner: number | null = null;
    for (const raw of messagesIn(posted)) {
      const message = parseGuestMessage(raw);
      if (owner === null) record(message[0], events);
      else if (message[0] !== owner) throw new PortViolation('journal events of one guest with messages of another');
      owner = message[0];
      this.#listener.receive(message);
    }
  }
}

const hasEvents = (raw: unknown): raw is [events: string, posted: unknown] =>
  Array.isArray(raw) && raw.length === 2 && typeof raw[0] === 'string';

const messagesIn = (posted: unknown): readonly unknown[] => (isBatch(posted) ? posted[0] : [posted]);
