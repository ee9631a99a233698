import type { ServerResponse } from 'node:http';
import { beginEvents, writeEvents } from '../../server/http/http-reply.ts';
import type { HttpCall, Route } from '../../server/http/route.ts';
import type { Caller } from '../../server/identity/caller.ts';
import { idOf, type StoreStamps } from '../../server/records/record-kind.ts';
import { StoreError, type StoreReader } from '../../server/store/store.ts';
import type { LiveTopics } from '../console-state.ts';
import { EventReader } from '../event-reader.ts';

/** Proxies and browsers give up on a stream that is silent for too long. */
const HEARTBEAT_MS = 15_000;

export interface EventsOptions<R> extends Pick<Route, 'path' | 'needs'> {
  /** Which records the caller may see. @default all */
  readonly sees?: (caller: Caller) => (record: R) => boolean;
}

/**
 * Server-sent events. `change` names what changed; its id, sent back as Last-Event-ID, lets a reader go on where it
 * was. `reset` says that the reader must fetch everything anew; it also begins a stream without such an id.
 */
export function eventsRoute<R extends StoreStamps>(store: StoreReader<R>, options: EventsOptions<R>): Route {
  return {
    method: 'GET',
    path: options.path,
    needs: options.needs,
    longRequest: () => 'stream',
    async run(call) {
      await stream(store, options.sees?.(call.caller) ?? (() => true), call);
      return 'streamed';
    },
  };
}

async function stream<R extends StoreStamps>(
  store: StoreReader<R>,
  sees: (record: R) => boolean,
  { headers, response, signal }: HttpCall,
): Promise<void> {
  const epoch = await store.epoch();
  const resumeAt = revisionOf(headers['last-event-id'], epoch);
  await beginEvents(response);
  let since = resumeAt ?? (await reset(store, response, epoch));
  while (!signal.aborted) {
    try {
      await follow(store, sees, since, epoch, response, signal);
      break;
    } catch (error) {
      // Too old, too slow: the reader starts over. Anything else ends the stream, and readers come back by themselves.
      if (!(error instanceof StoreError) || error.code === 'closed') break;
      since = await reset(store, response, epoch);
    }
  }
  response.end();
}

async function follow<R extends StoreStamps>(
  store: StoreReader<R>,
  sees: (record: R) => boolean,
  since: number,
  epoch: string,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  const reader = new EventReader(store.watch(since, signal)[Symbol.asyncIterator]());
  try {
    for (;;) {
      const event = await reader.next(HEARTBEAT_MS);
      if (event === 'ended') return;
      if (event === 'silence') {
        await writeEvents(response, ': heartbeat\n\n');
        continue;
      }
      const { revision, deletes } = event;
      const upserts = event.upserts.filter(sees).map((record) => idOf(store.kind, record));
      if (upserts.length + deletes.length === 0) continue;
      await writeEvents(response, message('change', epoch, revision, { epoch, revision, upserts, deletes }));
    }
  } finally {
    reader.close();
  }
}

async function reset(store: Pick<StoreReader, 'revision'>, response: ServerResponse, epoch: string): Promise<number> {
  const revision = await store.revision();
  await writeEvents(response, message('reset', epoch, revision, { epoch, revision }));
  return revision;
}

function message(event: string, epoch: string, revision: number, data: unknown): string {
  return `event: ${event}\nid: ${epoch}/${revision}\ndata: ${JSON.stringify(data)}\n\n`;
}

function revisionOf(lastEventId: string | string[] | undefined, epoch: string): number | null {
  const [itsEpoch, digits = ''] = String(lastEventId ?? '').split('/', 2);
  return itsEpoch === epoch && /^\d{1,15}$/.test(digits) ? Number(digits) : null;
}

/** Changes within this interval are reported in one event. */
const GATHER_MS = 200;
/** A reader that hears nothing for longer than a few of these knows that it is cut off. */
const LIVE_HEARTBEAT_MS = 5_000;

/** `GET /admin/api/live` tells which topics changed, as numbers; a reader that comes back compares them with its own. */
export function liveRoute(topics: LiveTopics): Route {
  return {
    method: 'GET',
    path: '/admin/api/live',
    needs: 'view',
    longRequest: () => 'stream',
    async run(call) {
      await followTopics(topics, call);
      return 'streamed';
    },
  };
}

async function followTopics(topics: LiveTopics, { response, signal }: HttpCall): Promise<void> {
  await beginEvents(response);
  let isNews = true;
  let wake = () => {};
  const stop = topics.onChange(() => {
    isNews = true;
    wake();
  });
  const woken = (ms: number, mayWake: boolean) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      const settle = () => {
        clearTimeout(timer);
        resolve();
      };
      if (mayWake) wake = settle;
      signal.addEventListener('abort', settle, { once: true });
    });
  try {
    while (!signal.aborted) {
      await writeEvents(response, isNews ? topicsMessage(topics) : ': heartbeat\n\n');
      isNews = false;
      await woken(GATHER_MS, false);
      if (!isNews && !signal.aborted) await woken(LIVE_HEARTBEAT_MS, true);
    }
  } finally {
    stop();
  }
  response.end();
}

const topicsMessage = (topics: LiveTopics) => `event: topics\ndata: ${JSON.stringify(topics.now())}\n\n`;
