import type { RunEvent } from '../run-events.ts';
import type { Claim } from '../run-queue.ts';
import type { NatsQueue } from './nats-queue.ts';
import { eventsSubject } from './subjects.ts';

/** Events are gathered for so long. */
const GATHER_MS = 50;
const MAX_MESSAGE_CHARS = 256 * 1024;

/** Sends the events of a run, after its journal has what precedes them. */
export class EventSender {
  readonly #queue: NatsQueue;
  readonly #claim: Claim;
  readonly #subject: string;
  #waiting: RunEvent[] = [];
  #chars = 0;
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> = Promise.resolve();

  constructor(queue: NatsQueue, claim: Claim) {
    this.#queue = queue;
    this.#claim = claim;
    this.#subject = eventsSubject(claim.run.namespace, claim.run.id);
  }

  add(event: RunEvent): void {
    this.#waiting.push(event);
    this.#chars += event.data.length;
    if (this.#chars > MAX_MESSAGE_CHARS) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), GATHER_MS).unref();
  }

  /** The last ones are sent when it resolves. */
  async close(): Promise<void> {
    this.#send();
    await this.#sending;
  }

  #send(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const events = this.#waiting;
    this.#waiting = [];
    this.#chars = 0;
    if (events.length > 0) this.#sending = this.#sending.then(() => this.#publish(events));
  }

  /** Nobody waits for an answer: events that are lost on the way are missed, the journal has what matters. */
  async #publish(events: readonly RunEvent[]): Promise<void> {
    const owned = this.#queue.owned(this.#claim);
    await owned?.settled();
    if (!owned?.lost.aborted) this.#queue.tell(this.#subject, JSON.stringify(events));
  }
}
