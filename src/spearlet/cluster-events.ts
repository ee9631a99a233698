import { isJsonObject, parseJson } from '../base/json.ts';
import { hasEnded, type RunStatus } from '../protocol/run.ts';
import type { NatsEvents } from '../queue/nats/nats-events.ts';
import { type EventSource, type RunEvent, RunEvents } from './run-events.ts';

/** Events of runs on every node of a cluster. */
export class ClusterEvents implements EventSource {
  readonly #events: NatsEvents;

  constructor(events: NatsEvents) {
    this.#events = events;
  }

  async follow(namespace: string, run: string) {
    const events = new RunEvents(0);
    const close = await this.#events.follow(namespace, run, (event) => {
      events.add(event as RunEvent);
      if (isEnd(event as RunEvent)) events.end();
    });
    return { events, close };
  }
}

function isEnd({ event, data }: RunEvent): boolean {
  if (event !== 'status') return false;
  const value = parseJson(data);
  return isJsonObject(value) && typeof value.status === 'string' && hasEnded(value.status as RunStatus);
}
