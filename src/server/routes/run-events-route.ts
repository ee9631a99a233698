/**
 * `GET /v1/…/runs/ID/events`: the events of a run as Server-Sent Events. Event ids increase over all attempts, so a client
 * resumes with Last-Event-ID; a `gap` event reports that older events were evicted. Each reader has a bounded buffer; a
 * reader that falls behind receives a `gap`. The stream ends when the run has ended and no event followed for one second.
 */

import { writeEvents } from '../http/http-reply.ts';
import type { AuthenticatedCall } from '../http/route.ts';
import type { RunEvents, RunUpdate } from '../queue/run-events.ts';
import type { SubmittedRuns } from '../queue/run-queue.ts';
import { hasEnded, type RunRecord } from '../records/run.ts';
import { RUN_PATH, type RunBackend, type RunBackends, type RunRoute, runOf } from './run-route.ts';

const HEARTBEAT_MS = 15_000;
const HEARTBEAT = ': heartbeat\n\n';
/** Buffered events per reader. */
const MAX_BUFFERED = 10_000;
/** Time without events after which the stream of an ended run is complete. */
const LAST_EVENTS_MS = 1_000;

export function runEventsRoute(backends: RunBackends): RunRoute {
  return {
    method: 'GET',
    path: `${RUN_PATH}/events`,
    needs: 'view',
    longRequest: () => 'stream',
    doc: {
      summary: 'Streams the events of a run until the run ends',
      headers: { 'Last-Event-ID': 'resume after this event' },
      answers: {
        200: {
          what: 'events output, log, model, tool, status and gap, each with JSON data',
          type: 'text/event-stream',
        },
      },
    },
    async run(call) {
      await follow(backends(call.params.namespace), call);
      return 'streamed';
    },
  };
}

async function follow({ runs, events }: RunBackend, call: AuthenticatedCall): Promise<void> {
  const run = await runOf(runs, call);
  const { response, signal } = call;
  const given = String(call.headers['last-event-id'] ?? '');
  let last = /^\d{1,15}$/.test(given) ? Number(given) : null;
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  response.flushHeaders();
  for (;;) {
    const source = await events.follow(run.namespace, run.id, last);
    const end = new EndOfEvents(runs, run);
    if (source !== null) last = await writeEventsAfter(source.events, last, call, end).finally(() => source.close());
    end.close();
    if (signal.aborted || response.destroyed) break;
    const change = nextChange(runs, run.id, signal);
    const now = await runs.get(run.namespace, run.id);
    if (now === null || hasEnded(now.status)) {
      change.stop();
      // The events were evicted or have no end (the run never started): emit the final status from the record.
      if (source?.events.hasEnded !== true && now !== null) {
        if (source === null && last !== null) await writeEvents(response, 'event: gap\ndata: {}\n\n');
        await writeEvents(
          response,
          `event: status\ndata: ${JSON.stringify({ status: now.status, exit: now.exit })}\n\n`,
        );
      }
      break;
    }
    if (!(await change.woken)) await writeEvents(response, HEARTBEAT);
    change.stop();
  }
  response.end();
}

/** Writes the events after `last` until the source or the run ends. Returns the id of the last event written. */
async function writeEventsAfter(
  source: RunEvents,
  last: number | null,
  { response, signal }: Pick<AuthenticatedCall, 'response' | 'signal'>,
  end: EndOfEvents,
): Promise<number | null> {
  const { events, isGap } = source.since(last);
  const waiting: Exclude<RunUpdate, 'end' | 'gone'>[] = [...(isGap ? (['gap'] as const) : []), ...events];
  let wake = () => {};
  end.onReached = () => wake();
  const stop = source.listen((event) => {
    end.onEvent();
    wake();
    if (event === 'end' || event === 'gone') return;
    if (waiting.length < MAX_BUFFERED) waiting.push(event);
    else if (waiting.at(-1) !== 'gap') waiting.push('gap');
  });
  signal.addEventListener('abort', () => wake(), { once: true });
  let sent = last;
  try {
    while (!signal.aborted && !response.destroyed) {
      const next = waiting.shift();
      if (next === 'gap') await writeEvents(response, 'event: gap\ndata: {}\n\n');
      else if (next !== undefined) {
        await writeEvents(response, `event: ${next.event}\nid: ${next.id}\ndata: ${next.data}\n\n`);
        sent = next.id;
      } else if (source.isOver || end.isReached) return sent;
      else {
        const woken = await wokenBeforeHeartbeat((resolve) => {
          wake = resolve;
        });
        if (!woken) await writeEvents(response, HEARTBEAT);
      }
    }
    return sent;
  } finally {
    stop();
  }
}

/** Detects that a run has ended and emits no more events. */
class EndOfEvents {
  readonly #unsubscribe: () => void;
  #timer: NodeJS.Timeout | null = null;
  #isClosed = false;
  isReached = false;
  onReached = () => {};

  constructor(runs: SubmittedRuns, { namespace, id }: Pick<RunRecord, 'namespace' | 'id'>) {
    this.#unsubscribe = runs.onChange((change) => {
      if (change.id === id && hasEnded(change.status)) this.#begin();
    });
    const begin = (now: RunRecord | null) => (now === null || hasEnded(now.status)) && this.#begin();
    runs.get(namespace, id).then(begin, () => {});
  }

  /** An event arrived: the quiet time starts again. */
  onEvent(): void {
    this.#timer?.refresh();
  }

  close(): void {
    this.#unsubscribe();
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#isClosed = true;
  }

  #begin(): void {
    if (this.#isClosed) return;
    this.#timer ??= setTimeout(() => {
      this.isReached = true;
      this.onReached();
    }, LAST_EVENTS_MS);
  }
}

/** Resolves true when woken, and false when a heartbeat is due. */
function wokenBeforeHeartbeat(listen: (wake: () => void) => void): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), HEARTBEAT_MS);
    listen(() => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}

/** The next change of the run's record. */
function nextChange(runs: SubmittedRuns, run: string, signal: AbortSignal) {
  let wake = () => {};
  const woken = wokenBeforeHeartbeat((resolve) => {
    wake = resolve;
  });
  const unsubscribe = runs.onChange(({ id }) => {
    if (id === run) wake();
  });
  signal.addEventListener('abort', () => wake(), { once: true });
  const stop = () => {
    unsubscribe();
    wake();
  };
  return { woken, stop };
}
