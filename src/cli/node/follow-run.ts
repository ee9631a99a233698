import type { IncomingMessage } from 'node:http';
import { createParser } from 'eventsource-parser';
import { isJsonObject, parseJson } from '../../base/json.ts';
import { endStatuses } from '../../server/records/run.ts';
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
