import { DeliverPolicy } from '@nats-io/jetstream';
import { isJsonObject, parseJson } from '../../../base/json.ts';
import { hasEnded, type RunStatus } from '../../records/run.ts';
import { lifeOf, type RunEvent, type RunEventSource, RunEvents } from '../run-events.ts';
import type { NatsParts } from './nats-parts.ts';
import { eventsSubject, streams } from './subjects.ts';

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
