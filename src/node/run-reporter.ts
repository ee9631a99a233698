import { setTimeout as delay } from 'node:timers/promises';
import { totalTokens } from '../agent/chat/budgeted-backend.ts';
import { backoffMs } from '../base/backoff.ts';
import { errorText } from '../base/error-text.ts';
import {
  type RunReport,
  type RunReportTarget,
  type RunTimelineReport,
  runReportLimits,
} from '../registry-client/run-report.ts';
import type { RunRegistry } from '../run/open-registry.ts';
import { nodeId } from '../run/report-node.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import type { RunQueue } from '../server/queue/run-queue.ts';
import { hasEnded, type RunRecord } from '../server/records/run.ts';
import { boundedPicture, timelinePicture } from '../server/timeline/timeline-picture.ts';
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

/** How often as many as are told may be remembered meanwhile. */
const SLACK = 4;
const unended = ['running', 'waiting', 'parked'] as const;

export interface RunBoardOptions {
  readonly queue: Pick<RunQueue, 'get' | 'list' | 'onChange'>;
  /** The name of this node: others tell of theirs. */
  readonly node: string;
  /** Those that it has tasks of. */
  readonly namespaces: () => Iterable<string>;
}

/** The runs of this node that people want to see: those that have not ended, and the last ones that have. */
export class RunBoard {
  readonly #options: RunBoardOptions;
  /** In the order in which they were begun. */
  readonly #runs = new Map<string, RunRecord>();
  /** To be read again. */
  readonly #outdated = new Set<string>();
  readonly #unsubscribe: () => void;
  #isChanged = true;
  #loading: Promise<void> | null = null;

  constructor(options: RunBoardOptions) {
    this.#options = options;
    this.#unsubscribe = options.queue.onChange(({ id }) => {
      if (this.#runs.has(id)) this.#outdated.add(id);
    });
  }

  /** This node works on it now. */
  add(run: RunRecord): void {
    this.#runs.delete(run.id);
    this.#runs.set(run.id, run);
    this.#outdated.add(run.id);
    // Thousands are begun in a second: they are looked at whole only now and then.
    if (this.#runs.size > SLACK * (runReportLimits.maxActive + runReportLimits.maxEnded)) this.#trim();
  }

  find(id: string): RunRecord | null {
    return this.#runs.get(id) ?? null;
  }

  /** Newest first; null: as it was when it was last asked for. `anew`: in any case. */
  async changed(anew: boolean): Promise<readonly RunReport[] | null> {
    this.#loading ??= this.#load();
    await this.#loading;
    const outdated = [...this.#outdated].flatMap((id) => this.#runs.get(id) ?? []);
    this.#outdated.clear();
    for (const { namespace, id } of outdated) {
      const run = await this.#options.queue.get(namespace, id);
      if (run !== null && this.#runs.has(id)) this.#runs.set(id, run);
      if (run === null) this.#runs.delete(id);
      this.#isChanged = true;
    }
    if (!anew && !this.#isChanged) return null;
    this.#isChanged = false;
    this.#trim();
    return [...this.#runs.values()].reverse().map(reportOf);
  }

  close(): void {
    this.#unsubscribe();
  }

  /** What an earlier process of this node left: parked runs are begun again only when somebody decides. */
  async #load(): Promise<void> {
    const { queue, node, namespaces } = this.#options;
    const known: RunRecord[] = [];
    for (const namespace of namespaces()) {
      for (const status of unended) {
        known.push(...(await queue.list(namespace, { status, limit: runReportLimits.maxActive })).runs);
      }
      const { runs } = await queue.list(namespace, { limit: runReportLimits.maxEnded });
      known.push(...runs.filter(({ status }) => hasEnded(status)));
    }
    const mine = known.filter((run) => run.node === node && !this.#runs.has(run.id));
    const meanwhile = [...this.#runs];
    this.#runs.clear();
    for (const run of mine.sort((a, b) => a.submitted_at_ms - b.submitted_at_ms)) this.#runs.set(run.id, run);
    for (const [id, run] of meanwhile) this.#runs.set(id, run);
    this.#trim();
  }

  #trim(): void {
    const { maxActive, maxEnded } = runReportLimits;
    let ended = 0;
    let active = 0;
    for (const { id, status } of [...this.#runs.values()].reverse()) {
      const isOver = hasEnded(status) ? ++ended > maxEnded : ++active > maxActive;
      if (isOver) this.#runs.delete(id);
    }
  }
}

function reportOf(run: RunRecord): RunReport {
  const { id, namespace, task, revision, status, submitted_by, submitted_at_ms } = run;
  const { started_at_ms, ended_at_ms, attempts, exit, cost, status_reason, degraded } = run;
  return {
    ...{ id, namespace, task, revision, status, submitted_by, submitted_at_ms },
    ...{ started_at_ms, ended_at_ms, attempts, exit, status_reason, degraded },
    cost: cost && {
      model_calls: cost.model_calls,
      tool_calls: cost.tool_calls,
      total_tokens: totalTokens(cost.tokens),
    },
  };
}
