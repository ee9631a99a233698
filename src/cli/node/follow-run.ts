import type { IncomingMessage } from 'node:http';
import { createParser } from 'eventsource-parser';
import { isJsonObject, type JsonValue, parseJson } from '../../base/json.ts';
import { endStatuses, type ParkedFor, parkedFor } from '../../server/records/run.ts';
import type { ApiClient } from '../api-client.ts';

export interface FollowedEvent {
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
}

const MAX_TRIES = 20;
const PAUSE_MS = 500;

/** Events of a run until it ends. Reconnects after a lost connection and continues with the next event. */
export async function followRun(
  client: ApiClient,
  path: string,
  onEvent: (event: FollowedEvent) => void,
  signal: AbortSignal,
): Promise<void> {
  let last: string | undefined;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    let isOver = false;
    try {
      const headers = last === undefined ? {} : { 'last-event-id': last };
      const response = await client.open('GET', `${path}/events`, { headers, signal });
      tries = 0;
      await read(response, (event, id) => {
        last = id ?? last;
        isOver = event.event === 'status' && endStatuses.some((end) => end === event.data.status);
        onEvent(event);
      });
    } catch (error) {
      if (signal.aborted) return;
      if (tries + 1 === MAX_TRIES) throw error;
    }
    if (isOver || signal.aborted) return;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

async function read(
  response: IncomingMessage,
  take: (event: FollowedEvent, id: string | undefined) => void,
): Promise<void> {
  const parser = createParser({
    onEvent: ({ event = 'message', id, data }) => {
      const value = parseJson(data);
      take({ event, data: isJsonObject(value ?? null) ? (value as Record<string, unknown>) : {} }, id);
    },
  });
  response.setEncoding('utf8');
  for await (const chunk of response as AsyncIterable<string>) parser.feed(chunk);
}

/** Lines for stderr about a run that waits, from the data of its `status` events: what for, and which command helps. */
export class WaitText {
  readonly #run: string;
  readonly #streams: string;
  /** Approval requests that were named already. */
  readonly #named = new Set<string>();
  #isParked = false;

  /** `streams`: the address of the client side of the run's user streams. */
  constructor(run: string, streams: string) {
    this.#run = run;
    this.#streams = streams;
  }

  lines(data: Readonly<Record<string, unknown>>): readonly string[] {
    const wasParked = this.#isParked;
    this.#isParked = data.status === 'parked';
    if (data.status === 'waiting') return this.#approvals(data.approvals);
    if (data.status === 'queued') return typeof data.reason === 'string' ? [this.#queued(data.reason)] : [];
    const parked = this.#isParked ? parkedFor.safeParse(data.for).data : undefined;
    if (this.#isParked) return [`the run ${this.#run} is parked${parked === undefined ? '' : this.#reason(parked)}`];
    return wasParked && data.status === 'running' ? [`the run ${this.#run} continues`] : [];
  }

  #queued(reason: string): string {
    return `the run ${this.#run} is queued: ${reason}`;
  }

  #approvals(given: unknown): readonly string[] {
    const asked = Array.isArray(given) ? given.filter((one: JsonValue) => isJsonObject(one)) : [];
    return asked.flatMap(({ request, server, tool }) => {
      const id = String(request);
      if (this.#named.has(id)) return [];
      this.#named.add(id);
      return [`the run ${this.#run} waits for an approval of ${server} ${tool}: ${decide(id)}`];
    });
  }

  #reason(parked: ParkedFor): string {
    switch (parked.kind) {
      case 'approval': {
        const ids = parked.request.split(' ');
        return ` until an approver decides: ${ids.map(decide).join('; ')}`;
      }
      case 'time':
        return ` until ${new Date(parked.atMs).toISOString()}, and continues by itself`;
      case 'stream':
        return ` until a client connects to its user streams: ${this.#streams}`;
      case 'stop':
        return ` until a stop is lifted (${parked.reason}): spear stop --lift ${parked.stop}`;
    }
  }
}

const decide = (id: string) => `spear approvals allow ${id}, or spear approvals deny ${id}`;
