import { beginEvents, writeEvents } from '../../server/http/http-reply.ts';
import type { HttpCall } from '../../server/http/route.ts';
import type { LiveTopics } from '../console-state.ts';
import type { Route } from './http-listener.ts';

/** Changes close to each other are told together. */
const GATHER_MS = 200;
/** A reader that hears nothing for longer than a few of these knows that it is cut off. */
const HEARTBEAT_MS = 5_000;

/** `GET /admin/api/live` tells which topics changed, as numbers; a reader that comes back compares them with its own. */
export function liveRoute(topics: LiveTopics): Route {
  return {
    method: 'GET',
    path: '/admin/api/live',
    needs: 'view',
    longRequest: () => 'stream',
    async run(call) {
      await follow(topics, call);
      return 'streamed';
    },
  };
}

async function follow(topics: LiveTopics, { response, signal }: HttpCall): Promise<void> {
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
      await writeEvents(response, isNews ? message(topics) : ': heartbeat\n\n');
      isNews = false;
      await woken(GATHER_MS, false);
      if (!isNews && !signal.aborted) await woken(HEARTBEAT_MS, true);
    }
  } finally {
    stop();
  }
  response.end();
}

const message = (topics: LiveTopics) => `event: topics\ndata: ${JSON.stringify(topics.now())}\n\n`;
