import { writeEvents } from '../http/event-stream.ts';
import type { RunEvents, RunUpdate } from '../queue/run-events.ts';
import type { SubmittedRuns } from '../queue/run-queue.ts';
import { hasEnded, type RunRecord } from '../records/run.ts';
import { found } from './found-run.ts';
import { type FindRuns, type KeptRuns, RUN_PATH, type RunCall, type RunRoute } from './run-route.ts';

const HEARTBEAT_MS = 15_000;
const STILL_HERE = ': heartbeat\n\n';
/** Events that wait for one reader; one that is slower is told of a gap. */
const MAX_WAITING = 10_000;
/** A run that ended, and of which nothing has come for so long, has told all that there is of it. */
const LAST_EVENTS_MS = 1_000;

/**
 * What happens in a run as Server-Sent Events: `output`, `log`, `model`, `tool`, `status`. Their ids rise over all
 * attempts; Last-Event-ID goes on after one, and `gap` says that some are not kept any more.
 */
export function runEventsRoute(kept: FindRuns): RunRoute {
  return {
    method: 'GET',
    path: `${RUN_PATH}/events`,
    needs: 'view',
    lasts: () => 'stream',
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
      await follow(kept(call.params.namespace), call);
      return 'streamed';
    },
  };
}

async function follow({ runs, events }: KeptRuns, call: RunCall): Promise<void> {
  const run = await found(runs, call);
  const { response, signal } = call;
  const given = String(call.headers['last-event-id'] ?? '');
  let last = /^\d{1,15}$/.test(given) ? Number(given) : null;
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  response.flushHeaders();
  for (;;) {
    const ofRun = await events.follow(run.namespace, run.id, last);
    const end = new SilentEnd(runs, run);
    if (ofRun !== null) last = await tell(ofRun.events, last, call, end).finally(() => ofRun.close());
    end.forget();
    if (signal.aborted || response.destroyed) break;
    const change = changeOf(runs, run.id, signal);
    const now = await runs.get(run.namespace, run.id);
    if (now === null || hasEnded(now.status)) {
      change.stop();
      // Its events are not kept any more, or have no end, as those of one that never began: how it ended is known.
      if (ofRun?.events.hasEnded !== true && now !== null) {
        if (ofRun === null && last !== null) await writeEvents(response, 'event: gap\ndata: {}\n\n');
        await writeEvents(
          response,
          `event: status\ndata: ${JSON.stringify({ status: now.status, exit: now.exit })}\n\n`,
        );
      }
      break;
    }
    if (!(await change.heard)) await writeEvents(response, STILL_HERE);
    change.stop();
  }
  response.end();
}

/** Events of a run from after `last`, as long as they are told here; the id of the last one that was sent. */
async function tell(
  ofRun: RunEvents,
  last: number | null,
  { response, signal }: Pick<RunCall, 'response' | 'signal'>,
  end: SilentEnd,
): Promise<number | null> {
  const { events, isGap } = ofRun.since(last);
  const waiting: Exclude<RunUpdate, 'end' | 'gone'>[] = [...(isGap ? (['gap'] as const) : []), ...events];
  let wake = () => {};
  end.onReached = () => wake();
  const stop = ofRun.listen((event) => {
    end.heard();
    wake();
    if (event === 'end' || event === 'gone') return;
    if (waiting.length < MAX_WAITING) waiting.push(event);
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
      } else if (ofRun.isOver || end.isReached) return sent;
      else {
        const heard = await silence((resolve) => {
          wake = resolve;
        });
        if (!heard) await writeEvents(response, STILL_HERE);
      }
    }
    return sent;
  } finally {
    stop();
  }
}

/** When a run has ended and nothing more is told of it. */
class SilentEnd {
  readonly #unsubscribe: () => void;
  #timer: NodeJS.Timeout | null = null;
  #isForgotten = false;
  isReached = false;
  onReached = () => {};

  constructor(runs: SubmittedRuns, { namespace, id }: Pick<RunRecord, 'namespace' | 'id'>) {
    this.#unsubscribe = runs.onChange((change) => {
      if (change.id === id && hasEnded(change.status)) this.#begin();
    });
    const begin = (now: RunRecord | null) => (now === null || hasEnded(now.status)) && this.#begin();
    runs.get(namespace, id).then(begin, () => {});
  }

  /** Something was told of it. */
  heard(): void {
    this.#timer?.refresh();
  }

  forget(): void {
    this.#unsubscribe();
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#isForgotten = true;
  }

  #begin(): void {
    if (this.#isForgotten) return;
    this.#timer ??= setTimeout(() => {
      this.isReached = true;
      this.onReached();
    }, LAST_EVENTS_MS);
  }
}

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

/** What happens to the run from now on: whether something does before it is time for a heartbeat. */
function changeOf(runs: SubmittedRuns, run: string, signal: AbortSignal) {
  let wake = () => {};
  const heard = silence((resolve) => {
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
  return { heard, stop };
}
