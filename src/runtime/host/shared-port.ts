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
import { MAX_AT_ONCE } from './guest-port.ts';

export interface SharedPortListener {
  readonly receive: (message: GuestMessage) => void;
  readonly onEvents: (guest: number, events: string) => void;
  readonly violated: (why: string) => void;
}

/** Replies that are posted together at most: the thread works on these while others are made. */
const MAX_GATHERED = 64;

/** The host thread's end of the port to a thread that guests share. */
export class SharedPort {
  readonly #port: MessagePort;
  readonly #listener: SharedPortListener;
  /** Replies that were given in one breath, to whichever guest. */
  #gathered: HostMessage[] = [];
  readonly #closed: Promise<void>;

  constructor(port: MessagePort, listener: SharedPortListener) {
    this.#port = port;
    this.#listener = listener;
    this.#closed = new Promise((resolve) => port.once('close', resolve));
    port.on('messageerror', () => listener.violated('a message of the guest thread cannot be deserialized'));
    port.on('message', (raw: unknown) => {
      this.#take(raw);
      this.takeArrived(MAX_AT_ONCE);
    });
  }

  /** Takes what has arrived, but not more than so many messages: guests that go on posting must not keep this thread. */
  takeArrived(most: number): void {
    for (let left = most; left > 0; left--) {
      const next = receiveMessageOnPort(this.#port);
      if (next === undefined) return;
      this.#take(next.message);
    }
  }

  say(guest: number, call: number, reply: HostReply): void {
    const gathered = this.#gathered.push([guest, call, ...reply]);
    if (gathered === 1) queueMicrotask(this.#postGathered);
    if (gathered >= MAX_GATHERED) this.#postGathered();
  }

  /** Whether the process waits for it. */
  keepsAlive(keep: boolean): void {
    if (keep) this.#port.ref();
    else this.#port.unref();
  }

  /** Takes what is left. Precondition: the thread has ended, or says nothing more. */
  close(): Promise<void> {
    this.takeArrived(Number.POSITIVE_INFINITY);
    this.#postGathered();
    this.#port.close();
    return this.#closed;
  }

  readonly #postGathered = (): void => {
    const gathered = this.#gathered;
    this.#gathered = [];
    if (gathered.length > 1) this.#port.postMessage([gathered]);
    else if (gathered.length === 1) this.#port.postMessage(gathered[0]);
  };

  #take(raw: unknown): void {
    try {
      if (hasEvents(raw)) this.#takeWithEvents(...raw);
      else for (const message of parsed(raw)) this.#listener.receive(message);
    } catch (error) {
      this.#listener.violated((error as Error).message);
    }
  }

  /** Each guest's replayLog comes with what that guest says. */
  #takeWithEvents(events: string, posted: unknown): void {
    if (!isEventsText(events)) throw new PortViolation('malformed journal events');
    const messages = parsed(posted);
    const guest = messages[0]?.[0];
    if (guest !== undefined) this.#listener.onEvents(guest, events);
    for (const message of messages) {
      if (message[0] !== guest) throw new PortViolation('journal events of one guest with messages of another');
      this.#listener.receive(message);
    }
  }
}

const hasEvents = (raw: unknown): raw is [events: string, posted: unknown] =>
  Array.isArray(raw) && raw.length === 2 && typeof raw[0] === 'string';

const parsed = (posted: unknown): GuestMessage[] =>
  isBatch(posted) ? posted[0].map(parseGuestMessage) : [parseGuestMessage(posted)];
