import { DeliverPolicy } from '@nats-io/jetstream';
import { isJsonObject, parseJson } from '../../../base/json.ts';
import { hasEnded, type RunStatus } from '../../records/run.ts';
import { activationOf, type RunEvent, type RunEventSource, RunEvents } from '../run-events.ts';
import type { Claim } from '../run-queue.ts';
import type { NatsParts } from './nats-parts.ts';
import type { NatsQueue } from './nats-queue.ts';
import { eventsSubject, streams } from './streams.ts';

/** Run events from the stream of a cluster: any node can serve them, whichever node has the run. */
export class NatsEvents implements RunEventSource {
  readonly #parts: Pick<NatsParts, 'js'>;

  constructor(parts: Pick<NatsParts, 'js'>) {
    this.#parts = parts;
  }

  async follow(namespace: string, run: string, last: number | null) {
    const events = new RunEvents();
    const consumer = await this.#parts.js.consumers.get(streams.events, {
      filter_subjects: eventsSubject(namespace, run),
      deliver_policy: DeliverPolicy.All,
    });
    const messages = await consumer.consume();
    const read = async () => {
      let isFirst = true;
      let life = 0;
      for await (const message of messages) {
        for (const event of message.json<RunEvent[]>()) {
          // The event after `last` has expired, so events may be missing.
          if (isFirst && last !== null && event.id > last + 1) events.gap();
          isFirst = false;
          // A node that lost the run may still publish events of its attempt; they are ignored.
          if (activationOf(event) < life || event.id <= (last ?? 0)) continue;
          life = activationOf(event);
          events.add(event);
          if (isEnd(event)) events.end();
        }
      }
    };
    read().catch(() => {});
    return { events, close: () => messages.stop() };
  }
}

function isEnd({ event, data }: RunEvent): boolean {
  if (event !== 'status') return false;
  const value = parseJson(data);
  return isJsonObject(value) && typeof value.status === 'string' && hasEnded(value.status as RunStatus);
}

/** Events are batched for this long. */
const BATCH_MS = 50;
const MAX_MESSAGE_CHARS = 256 * 1024;

/** Publishes the events of a run, each after the journal entries that precede it. */
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
    else this.#timer ??= setTimeout(() => this.#send(), BATCH_MS).unref();
  }

  /** Resolves when the last events are sent. */
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

  /** Not acknowledged: a lost event is missed, and the journal has what matters. */
  async #publish(events: readonly RunEvent[]): Promise<void> {
    const owned = this.#queue.owned(this.#claim);
    await owned?.settled();
    if (!owned?.lost.aborted) this.#queue.publish(this.#subject, JSON.stringify(events));
  }
}
