import type { ServerResponse } from 'node:http';
import { hasEnded } from '../../protocol/run.ts';
import type { EventSource, RunEvent, RunEvents } from '../../queue/run-events.ts';
import type { RunQueue } from '../../queue/run-queue.ts';
import { HttpProblem } from '../../sms/http/problem.ts';
import type { NodeCall, NodeRoute } from './node-route.ts';
import { found, RUNS_PATH } from './run-routes.ts';

/** Readers at one time. */
const MAX_READERS = 1_024;
const HEARTBEAT_MS = 15_000;
const SLOW_READER_MS = 20_000;
/** Events that wait for one reader; one that is slower is told of a gap. */
const MAX_WAITING = 10_000;

/**
 * What happens in a run as Server-Sent Events: `output`, `log`, `model`, `tool`, `status`. Their ids rise over all
 * attempts; Last-Event-ID goes on after one, and `gap` says that some are not kept any more.
 */
export function runEventsRoute(queue: RunQueue, events: EventSource): NodeRoute {
  let readers = 0;
  return {
    method: 'GET',
    path: `${RUNS_PATH}/{id}/events`,
    needs: 'view',
    doc: {
      summary: 'What happens in the run, until its end',
      headers: { 'Last-Event-ID': 'go on after this event' },
      answers: {
        200: { what: 'events output, log, model, tool, status and gap, each with JSON', type: 'text/event-stream' },
      },
    },
    async run(call) {
      if (readers >= MAX_READERS) throw new HttpProblem(503, 'too-many-readers', `${MAX_READERS} read events already`);
      readers += 1;
      try {
        await follow(queue, events, call);
        return 'streamed';
      } finally {
        readers -= 1;
      }
    },
  };
}

async function follow(queue: RunQueue, all: EventSource, call: NodeCall): Promise<void> {
  const run = await found(queue, call);
  const { response, signal } = call;
  const given = String(call.request.headers['last-event-id'] ?? '');
  let last = /^\d{1,15}$/.test(given) ? Number(given) : null;
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  response.flushHeaders();
  for (;;) {
    const ofRun = await all.follow(run.namespace, run.id, last);
    if (ofRun !== null) last = await tell(ofRun.events, last, response, signal).finally(() => ofRun.close());
    if (signal.aborted || response.destroyed) break;
    const now = await queue.get(run.namespace, run.id);
    if (now === null || hasEnded(now.status)) {
      // Its events are not kept any more: how it ended is.
      if (ofRun === null && now !== null) {
        if (last !== null) await write(response, 'event: gap\ndata: {}\n\n');
        await write(response, `event: status\ndata: ${JSON.stringify({ status: now.status, exit: now.exit })}\n\n`);
      }
      break;
    }
    await changeOf(queue, run.id, response, signal);
  }
  response.end();
}

/** Events of one attempt from after `last` to its end; the id of the last one that was sent. */
async function tell(
  ofRun: RunEvents,
  last: number | null,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<number | null> {
  const { events, isGap } = ofRun.since(last);
  const waiting: (RunEvent | 'gap')[] = [...(isGap ? (['gap'] as const) : []), ...events];
  let wake = () => {};
  const stop = ofRun.listen((event) => {
    if (event !== 'end' && waiting.length < MAX_WAITING) waiting.push(event);
    else if (event !== 'end' && waiting.at(-1) !== 'gap') waiting.push('gap');
    wake();
  });
  signal.addEventListener('abort', () => wake(), { once: true });
  let sent = last;
  try {
    while (!signal.aborted && !response.destroyed) {
      const next = waiting.shift();
      if (next === 'gap') await write(response, 'event: gap\ndata: {}\n\n');
      else if (next !== undefined) {
        await write(response, `event: ${next.event}\nid: ${next.id}\ndata: ${next.data}\n\n`);
        sent = next.id;
        if (isBackInLine(next)) return sent;
      } else if (ofRun.hasEnded) return sent;
      else {
        const heard = await silence((resolve) => {
          wake = resolve;
        });
        if (!heard) await write(response, ': still here\n\n');
      }
    }
    return sent;
  } finally {
    stop();
  }
}

/** After it the attempt has no more events. */
const isBackInLine = ({ event, data }: RunEvent) =>
  event === 'status' && (data === '{"status":"queued"}' || data.startsWith('{"status":"parked"'));

/** Whether something came before it was time for a heartbeat. */
function silence(listen: (wake: () => void) => void): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), HEARTBEAT_MS);
    listen(() => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}

async function changeOf(queue: RunQueue, run: string, response: ServerResponse, signal: AbortSignal): Promise<void> {
  let wake = () => {};
  const stop = queue.onChange(({ id }) => {
    if (id === run) wake();
  });
  signal.addEventListener('abort', () => wake(), { once: true });
  const heard = await silence((resolve) => {
    wake = resolve;
  });
  stop();
  if (!heard) await write(response, ': still here\n\n');
}

function write(response: ServerResponse, text: string): Promise<void> {
  if (response.destroyed || response.write(text)) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(() => response.destroy(), SLOW_READER_MS);
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
