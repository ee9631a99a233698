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
 * Messages that are taken in one go: an event for each would cost more than most of them, and a guest that goes on
 * posting must not keep this thread from its timers and from other guests.
 */
export const MAX_AT_ONCE = 256;

/** The host thread's end of the port to a guest. */
export class GuestPort {
  readonly #port: MessagePort;
  readonly #guest: number;
  #receive: (message: GuestMessage) => void = () => {};
  #violated: (why: string) => void = () => {};
  #onEvents: ((events: string) => void) | null = null;
  /** Replies that were given in one breath. */
  #gathered: HostMessage[] = [];

  readonly #closed: Promise<void>;

  constructor(port: MessagePort, guest: number) {
    this.#port = port;
    this.#guest = guest;
    this.#closed = new Promise((resolve) => port.once('close', resolve));
  }

  /** `violated` is told what the guest's thread said that it must not, and why it cannot be read. */
  listen(receive: (message: GuestMessage) => void, violated: (why: string) => void): void {
    this.#receive = receive;
    this.#violated = violated;
    this.#port.on('messageerror', () => violated('a message of the guest thread cannot be deserialized'));
    this.#port.on('message', (raw: unknown) => {
      this.#take(raw);
      this.#takeArrived(MAX_AT_ONCE);
    });
  }

  /** `onEvents` takes what the guest's replayLog has written, before the message that it came with. */
  listenToEvents(onEvents: (events: string) => void): void {
    this.#onEvents = onEvents;
  }

  /** Takes all that has arrived. Precondition: the guest's thread has ended, or nothing else is to happen before. */
  drain(): void {
    this.#takeArrived(Number.POSITIVE_INFINITY);
  }

  #takeArrived(most: number): void {
    for (let left = most; left > 0; left--) {
      const next = receiveMessageOnPort(this.#port);
      if (next === undefined) return;
      this.#take(next.message);
    }
  }

  /**
   * What is given in one breath goes together, at the end of it and before anything else happens in this thread: every
   * message may have to wake the guest's thread.
   */
  reply(call: number, reply: HostReply): void {
    if (this.#gathered.push([this.#guest, call, ...reply]) === 1) queueMicrotask(this.#postGathered);
  }

  readonly #postGathered = (): void => {
    const gathered = this.#gathered;
    this.#gathered = [];
    if (gathered.length > 1) this.#port.postMessage([gathered]);
    else if (gathered.length === 1) this.#port.postMessage(gathered[0]);
  };

  /** Takes what is left; afterwards nothing of the port is there any more. */
  close(): Promise<void> {
    this.drain();
    this.#postGathered();
    this.#port.close();
    return this.#closed;
  }

  #takeEvents(raw: unknown, onEvents: (events: string) => void): unknown {
    if (!Array.isArray(raw) || raw.length !== 2) return raw;
    const [events, message] = raw as unknown[];
    if (!isEventsText(events)) throw new PortViolation('malformed journal events');
    onEvents(events);
    return message;
  }

  #take(raw: unknown): void {
    try {
      const posted = this.#onEvents === null ? raw : this.#takeEvents(raw, this.#onEvents);
      if (!isBatch(posted)) this.#receive(parseGuestMessage(posted));
      else for (const message of posted[0]) this.#receive(parseGuestMessage(message));
    } catch (error) {
      this.#violated((error as Error).message);
    }
  }
}
