import type { ServerResponse } from 'node:http';
import { EventReader } from '../event-reader.ts';
import { type RegistryStore, StoreError } from '../store/store.ts';
import type { HttpCall } from './http-call.ts';
import type { Route } from './http-listener.ts';
import { HttpProblem } from './problem.ts';
import { ADMIN_PATH } from './servers-routes.ts';

/** Readers at one time. */
const MAX_READERS = 64;
/** Proxies and browsers give up on a stream that is silent for too long. */
const HEARTBEAT_MS = 15_000;
const SLOW_READER_TIMEOUT_MS = 20_000;
const RETRY_MS = 2_000;

/**
 * Server-sent events. `change` names what changed; its id, sent back as Last-Event-ID, lets a reader go on where it
 * was. `reset` says that the reader must fetch everything anew; it also begins a stream without such an id.
 */
export function eventsRoute(store: RegistryStore): Route {
  let readers = 0;
  return {
    method: 'GET',
    path: `${ADMIN_PATH}/events`,
    needs: 'admin',
    async run(call) {
      if (readers >= MAX_READERS) throw new HttpProblem(503, 'too-many-readers', `${MAX_READERS} read events already`);
      readers += 1;
      try {
        await stream(store, call);
        return 'streamed';
      } finally {
        readers -= 1;
      }
    },
  };
}

async function stream(store: RegistryStore, { headers, response, signal }: HttpCall): Promise<void> {
  const epoch = await store.epoch();
  const resumeAt = revisionOf(headers['last-event-id'], epoch);
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  response.flushHeaders();
  await write(response, `retry: ${RETRY_MS}\n\n`);
  let since = resumeAt ?? (await reset(store, response, epoch));
  while (!signal.aborted) {
    try {
      await follow(store, since, epoch, response, signal);
      break;
    } catch (error) {
      // Too old, too slow: the reader starts over. Anything else ends the stream, and readers come back by themselves.
      if (!(error instanceof StoreError) || error.code === 'closed') break;
      since = await reset(store, response, epoch);
    }
  }
  response.end();
}

async function follow(
  store: RegistryStore,
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
        await write(response, ': still here\n\n');
        continue;
      }
      const { revision, deletes } = event;
      const upserts = event.upserts.map((record) => record.server_id);
      await write(response, message('change', epoch, revision, { epoch, revision, upserts, deletes }));
    }
  } finally {
    reader.close();
  }
}

async function reset(store: RegistryStore, response: ServerResponse, epoch: string): Promise<number> {
  const revision = await store.revision();
  await write(response, message('reset', epoch, revision, { epoch, revision }));
  return revision;
}

function message(event: string, epoch: string, revision: number, data: unknown): string {
  return `event: ${event}\nid: ${epoch}/${revision}\ndata: ${JSON.stringify(data)}\n\n`;
}

function revisionOf(lastEventId: string | string[] | undefined, epoch: string): number | null {
  const [itsEpoch, digits = ''] = String(lastEventId ?? '').split('/', 2);
  return itsEpoch === epoch && /^\d{1,15}$/.test(digits) ? Number(digits) : null;
}

function write(response: ServerResponse, text: string): Promise<void> {
  if (response.write(text) || response.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(() => response.destroy(), SLOW_READER_TIMEOUT_MS);
    const settle = () => {
      clearTimeout(timer);
      response.off('drain', settle);
      response.off('close', settle);
      resolve();
    };
    response.on('drain', settle);
    response.on('close', settle);
  });
}
