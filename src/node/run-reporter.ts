import { setTimeout as delay } from 'node:timers/promises';
import { totalTokens } from '../agent/chat/budgeted-backend.ts';
import { errorText } from '../base/errors.ts';
import { backoffMs } from '../base/timing.ts';
import {
  type RunReport,
  type RunReportTarget,
  type RunTimelineReport,
  runReportLimits,
} from '../registry-client/node-report.ts';
import type { RunRegistry } from '../run/open-registry.ts';
import { nodeId } from '../run/report-node.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import type { RunQueue } from '../server/queue/run-queue.ts';
import { hasEnded, type RunRecord } from '../server/records/run.ts';
import { boundedPicture, timelinePicture } from '../server/timeline/timeline-picture.ts';
import type { RunJournals } from './run-journals.ts';
import type { TaskStore } from './task-store.ts';

/** Pause between two reports. The response may request the timeline of a run, which a user of the console waits for. */
const EVERY_MS = 2_000;
const TIMEOUT_MS = 10_000;
const RETRIES = { firstMs: EVERY_MS, maxMs: 60_000 };
/** The board may exceed its bound by this factor before it is trimmed. */
const SLACK = 4;
const unended = ['running', 'waiting', 'parked'] as const;

/** What reports need from the node. */
export interface ReportedNode {
  readonly queue: Pick<RunQueue, 'get' | 'list' | 'onChange'>;
  readonly tasks: Pick<TaskStore, 'list'>;
  readonly journals: Pick<RunJournals, 'timeline'>;
  /** Name of this node. */
  readonly node: string;
  readonly log: ServiceLog;
}

/** Reports the runs of this node to its registry, for the console; null: the registry takes no reports. */
export function reportRuns(registry: RunRegistry | null, node: ReportedNode): RunReporter | null {
  const target = registry?.reports ?? null;
  return target === null ? null : new RunReporter(target, node);
}

/** Reports changed runs every few seconds, and the timelines that the registry requests. */
export class RunReporter {
  readonly #target: RunReportTarget;
  readonly #node: ReportedNode;
  readonly #board: RunBoard;
  readonly #closed = new AbortController();
  readonly #reporting: Promise<void>;

  constructor(target: RunReportTarget, node: ReportedNode) {
    this.#target = target;
    this.#node = node;
    this.#board = new RunBoard(node);
    this.#reporting = this.#report();
  }

  /** An attempt at this run starts here. */
  add(run: RunRecord): void {
    this.#board.add(run);
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#reporting;
    this.#board.close();
  }

  async #report(): Promise<void> {
    const { node, log } = this.#node;
    const { signal } = this.#closed;
    let wanted: readonly string[] = [];
    let isFull = true;
    let failures = 0;
    while (!signal.aborted) {
      try {
        const runs = await this.#board.changed(isFull);
        const shown = wanted.slice(0, runReportLimits.maxTimelines);
        const timelines = await Promise.all(shown.map((id) => this.#timeline(id)));
        const deadline = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
        const answer = await this.#target.reportRuns({ nodeId: nodeId(node), runs, timelines }, deadline);
        wanted = answer.wantedTimelines;
        isFull = answer.wantsRuns;
        failures = 0;
      } catch (error) {
        // The next report is a full one.
        isFull = true;
        wanted = [];
        failures += 1;
        if (failures === 1 && !signal.aborted) log('warn', 'runs_not_reported', { message: errorText(error) });
      }
      const pauseMs = failures > 0 ? backoffMs(RETRIES, failures, Math) : wanted.length > 0 || isFull ? 0 : EVERY_MS;
      await delay(pauseMs, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  async #timeline(runId: string): Promise<RunTimelineReport> {
    const run = this.#board.find(runId);
    if (run === null) return { runId, picture: null, problem: 'this node no longer has the run' };
    try {
      const picture = timelinePicture(await this.#node.journals.timeline(run.namespace, runId));
      const bounded = boundedPicture(picture, runReportLimits.maxTimelineBytes);
      return { runId, picture: JSON.stringify(bounded), problem: '' };
    } catch (error) {
      return { runId, picture: null, problem: errorText(error) };
    }
  }
}

/** The runs of this node to report: all that have not ended, and the last that have. */
class RunBoard {
  readonly #node: ReportedNode;
  /** In order of their start. */
  readonly #runs = new Map<string, RunRecord>();
  /** Runs to read again. */
  readonly #outdated = new Set<string>();
  readonly #unsubscribe: () => void;
  #isChanged = true;
  #loading: Promise<void> | null = null;

  constructor(node: ReportedNode) {
    this.#node = node;
    this.#unsubscribe = node.queue.onChange(({ id }) => {
      if (this.#runs.has(id)) this.#outdated.add(id);
    });
  }

  add(run: RunRecord): void {
    this.#runs.delete(run.id);
    this.#runs.set(run.id, run);
    this.#outdated.add(run.id);
    // Not trimmed on every start, of which there may be thousands per second.
    if (this.#runs.size > SLACK * (runReportLimits.maxActive + runReportLimits.maxEnded)) this.#trim();
  }

  find(id: string): RunRecord | null {
    return this.#runs.get(id) ?? null;
  }

  /** Newest first; null: unchanged since the last call. `isFull`: never null. */
  async changed(isFull: boolean): Promise<readonly RunReport[] | null> {
    this.#loading ??= this.#load();
    await this.#loading;
    const outdated = [...this.#outdated].flatMap((id) => this.#runs.get(id) ?? []);
    this.#outdated.clear();
    for (const { namespace, id } of outdated) {
      const run = await this.#node.queue.get(namespace, id);
      if (run !== null && this.#runs.has(id)) this.#runs.set(id, run);
      if (run === null) this.#runs.delete(id);
      this.#isChanged = true;
    }
    if (!isFull && !this.#isChanged) return null;
    this.#isChanged = false;
    this.#trim();
    return [...this.#runs.values()].reverse().map(reportOf);
  }

  close(): void {
    this.#unsubscribe();
  }

  /** Loads runs of an earlier process of this node: a parked run is not started again until it is woken. */
  async #load(): Promise<void> {
    const { queue, node, tasks } = this.#node;
    const namespaces = new Set(tasks.list(null).map(({ live }) => live.namespace));
    const known: RunRecord[] = [];
    for (const namespace of namespaces) {
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
