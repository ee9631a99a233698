import { DeliverPolicy } from '@nats-io/jetstream';
import type { Claim } from '../run-queue.ts';
import type { NatsQueue } from './nats-queue.ts';
import { eventsSubject, streams } from './subjects.ts';

/** Events are gathered for so long. */
const GATHER_MS = 50;
const MAX_MESSAGE_CHARS = 256 * 1024;
const ANSWER_MS = 5_000;

/** What happened in a run, as it is sent. */
export interface SentEvent {
  readonly id: number;
  readonly event: string;
  readonly data: string;
}

/** Events of runs in the stream of a cluster: whoever is asked for them can tell them, wherever the run is. */
export class NatsEvents {
  readonly #queue: NatsQueue;

  constructor(queue: NatsQueue) {
    this.#queue = queue;
  }

  /** Sends what it is given, after the journal has what precedes it. */
  sender(claim: Claim): EventSender {
    return new EventSender(this.#queue, claim);
  }

  /** All that are kept and those that come; the returned function ends it. */
  async follow(namespace: string, run: string, take: (event: SentEvent) => void): Promise<() => void> {
    const { js } = this.#queue.parts;
    const consumer = await js.consumers.get(streams.events, {
      filter_subjects: eventsSubject(namespace, run),
      deliver_policy: DeliverPolicy.All,
    });
    const messages = await consumer.consume();
    const read = async () => {
      for await (const message of messages) for (const event of message.json<SentEvent[]>()) take(event);
    };
    read().catch(() => {});
    return () => messages.stop();
  }
}

export class EventSender {
  readonly #queue: NatsQueue;
  readonly #claim: Claim;
  readonly #subject: string;
  #waiting: SentEvent[] = [];
  #chars = 0;
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> = Promise.resolve();

  constructor(queue: NatsQueue, claim: Claim) {
    this.#queue = queue;
    this.#claim = claim;
    this.#subject = eventsSubject(claim.run.namespace, claim.run.id);
  }

  add(event: SentEvent): void {
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

  /** Events that cannot be sent are missed: the journal has what matters. */
  async #publish(events: readonly SentEvent[]): Promise<void> {
    const owned = this.#queue.owned(this.#claim);
    await owned?.settled();
    if (owned?.lost.aborted) return;
    try {
      await this.#queue.parts.js.publish(this.#subject, JSON.stringify(events), { timeout: ANSWER_MS });
    } catch {
      // Who follows the run sees how it ends.
    }
  }
}
