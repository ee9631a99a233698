import { DeliverPolicy } from '@nats-io/jetstream';
import { isJsonObject, parseJson } from '../../../base/json.ts';
import { hasEnded, type RunStatus } from '../../records/run.ts';
import { lifeOf, type RunEvent, type RunEventSource, RunEvents } from '../run-events.ts';
import type { Claim } from '../run-queue.ts';
import type { NatsParts } from './nats-parts.ts';
import type { NatsQueue } from './nats-queue.ts';
import { eventsSubject, streams } from './streams.ts';

/** Events of runs in the stream of a cluster: whoever is asked for them can tell them, wherever the run is. */
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
          // The one that was told last is not kept any more: nobody knows what came between.
          if (isFirst && last !== null && event.id > last + 1) events.gap();
          isFirst = false;
          // A node that was replaced may tell of its attempt for a while, and what it tells is void.
          if (lifeOf(event) < life || event.id <= (last ?? 0)) continue;
          life = lifeOf(event);
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
