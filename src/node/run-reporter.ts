import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '../base/backoff.ts';
import { errorText } from '../base/error-text.ts';
import { type RunReportTarget, type RunTimelineReport, runReportLimits } from '../registry-client/run-report.ts';
import type { RunRegistry } from '../run/open-registry.ts';
import { nodeId } from '../run/report-node.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import type { RunQueue } from '../server/queue/run-queue.ts';
import type { RunRecord } from '../server/records/run.ts';
import { boundedPicture, timelinePicture } from '../server/timeline/timeline-picture.ts';
import { RunBoard } from './run-board.ts';
import type { RunJournals } from './run-journals.ts';
import type { TaskStore } from './task-store.ts';

/** Somebody may wait for a timeline: it is asked for in the answer to a report. */
const EVERY_MS = 2_000;
const TIMEOUT_MS = 10_000;
const RETRIES = { firstMs: EVERY_MS, maxMs: 60_000 };

export interface RunReporterOptions {
  readonly target: RunReportTarget;
  readonly board: RunBoard;
  readonly journals: Pick<RunJournals, 'timeline'>;
  readonly nodeId: string;
  readonly log: ServiceLog;
}

export interface ToldRuns {
  begun(run: RunRecord): void;
  close(): Promise<void>;
}

/** Runs of this node in the console of its registry; null: that registry is told nothing. */
export function tellOfRuns(
  registry: RunRegistry | null,
  {
    queue,
    tasks,
    journals,
    node,
    log,
  }: {
    readonly queue: RunQueue;
    readonly tasks: Pick<TaskStore, 'list'>;
    readonly journals: RunJournals;
    readonly node: string;
    readonly log: ServiceLog;
  },
): ToldRuns | null {
  const target = registry?.reports ?? null;
  if (target === null) return null;
  const namespaces = () => new Set(tasks.list(null).map(({ live }) => live.namespace));
  const board = new RunBoard({ queue, node, namespaces });
  const reporter = new RunReporter({ target, board, journals, nodeId: nodeId(node), log });
  return {
    begun: (run) => board.add(run),
    close: async () => {
      await reporter.close();
      board.close();
    },
  };
}

/** Tells the registry of this node's runs, and gives it the timelines that people want to see. */
export class RunReporter {
  readonly #options: RunReporterOptions;
  readonly #closed = new AbortController();
  readonly #reporting: Promise<void>;

  constructor(options: RunReporterOptions) {
    this.#options = options;
    this.#reporting = this.#report();
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#reporting;
  }

  async #report(): Promise<void> {
    const { target, board, nodeId, log } = this.#options;
    const { signal } = this.#closed;
    let wanted: readonly string[] = [];
    let anew = true;
    let failures = 0;
    while (!signal.aborted) {
      try {
        const runs = await board.changed(anew);
        const shown = wanted.slice(0, runReportLimits.maxTimelines);
        const timelines = await Promise.all(shown.map((id) => this.#timeline(id)));
        const deadline = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
        const answer = await target.reportRuns({ nodeId, runs, timelines }, deadline);
        wanted = answer.wantedTimelines;
        anew = answer.wantsRuns;
        failures = 0;
      } catch (error) {
        // What was not told is told whole.
        anew = true;
        wanted = [];
        failures += 1;
        if (failures === 1 && !signal.aborted) log('warn', 'runs_not_reported', { message: errorText(error) });
      }
      const pauseMs = failures > 0 ? backoffMs(RETRIES, failures, Math) : wanted.length > 0 || anew ? 0 : EVERY_MS;
      await delay(pauseMs, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  async #timeline(runId: string): Promise<RunTimelineReport> {
    const { board, journals } = this.#options;
    const run = board.find(runId);
    if (run === null) return { runId, picture: null, problem: 'this node no longer has the run' };
    try {
      const picture = timelinePicture(await journals.timeline(run.namespace, runId));
      const bounded = boundedPicture(picture, runReportLimits.maxTimelineBytes);
      return { runId, picture: JSON.stringify(bounded), problem: '' };
    } catch (error) {
      return { runId, picture: null, problem: errorText(error) };
    }
  }
}
