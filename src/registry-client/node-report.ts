/**
 * Reports of a node to its registry: the messages, and the reporter that sends them.
 *
 * Invariants
 * - One report is in flight at a time, and each replaces the previous one.
 * - A failed report is retried with backoff; the interval follows the expiry that the registry returns.
 * - Reports contain no secrets.
 */
import { createHash } from 'node:crypto';
import { backoffMs } from '../base/timing.ts';
import type { RunRecord } from '../server/records/run.ts';
import { Lifetime, type RegistryEnvironment, systemEnvironment } from './lifetime.ts';

export const reportedHealths = ['idle', 'connected', 'degraded', 'down'] as const;
export type ReportedHealth = (typeof reportedHealths)[number];

/** State of one server that the node has used. */
export interface ServerReport {
  readonly serverId: string;
  readonly health: ReportedHealth;
  /** Without secrets: every user of the registry can see it. */
  readonly lastError: string | null;
  readonly toolCount: number | null;
  readonly reconnects: number;
  /** Smoothed latency of calls; absent before the first response. */
  readonly latencyMs?: number;
  /** Hash of its tool list; absent if there is no list yet. */
  readonly toolsHash?: string;
}

/** Load of the node process. */
export interface ProcessLoad {
  readonly connections: number;
  readonly subprocesses: number;
  readonly callsInFlight: number;
  readonly callsQueued: number;
  readonly memoryBytes: number;
  /** Share of one core since the previous report, in thousandths. */
  readonly cpuPermille: number;
  readonly upMs: number;
}

export const reportedStates = ['starting', 'ready', 'degraded', 'refused', 'stale'] as const;
export type ReportedState = (typeof reportedStates)[number];

/** State of a node. Each report replaces the previous one. */
export interface NodeReport {
  readonly nodeId: string;
  readonly registryState: ReportedState;
  readonly epoch: string;
  readonly snapshotRevision: number;
  readonly servers: readonly ServerReport[];
  /** Version of the program. Nodes of earlier versions do not send this field or the ones below. */
  readonly version?: string;
  readonly load?: ProcessLoad;
  /** Epoch and revision of the stops that the node applies. */
  readonly stopsEpoch?: string;
  readonly stopsRevision?: number;
  /** Tool lists that the registry may not have. */
  readonly toolLists?: readonly ToolListReport[];
}

export interface ReportAnswer {
  /** The registry expires the report after this time without another one. */
  readonly expiresAfterMs: number;
  /** Hashes of tool lists that the registry does not have. @default none */
  readonly wantedToolLists?: readonly string[];
}

export interface ReportTarget extends RunReportTarget {
  report(report: NodeReport, signal: AbortSignal): Promise<ReportAnswer>;
}

export interface NodeReporterOptions {
  readonly target: Pick<ReportTarget, 'report'>;
  /** Called for every report. */
  readonly collect: () => NodeReport;
  /** Longest interval between reports; shorter if the registry expires reports sooner. @default 20 s */
  readonly intervalMs?: number;
  /** Deadline of one report. @default 5 s */
  readonly timeoutMs?: number;
  /** A report was accepted. Returns whether another report should follow soon. @default no */
  readonly answered?: (report: NodeReport, answer: ReportAnswer) => boolean;
  /** A report failed; the next one replaces it. @default none */
  readonly onFailure?: (error: unknown) => void;
  readonly environment?: RegistryEnvironment;
}

const DEFAULT_INTERVAL_MS = 20_000;
const DEFAULT_TIMEOUT_MS = 5_000;
const MIN_INTERVAL_MS = 1_000;
/** First delay before a retry; it doubles up to the interval. */
const FIRST_RETRY_MS = 500;
/** Reports per expiry time of the registry. */
const REPORTS_PER_EXPIRY = 3;
/** Changes within this time are combined in one report. */
const GATHER_MS = 250;

/** Reports the state of this node to the registry: when `changed` is called, and at an interval. */
export class NodeReporter {
  readonly #options: NodeReporterOptions;
  readonly #environment: RegistryEnvironment;
  readonly #lifetime: Lifetime;
  #intervalMs: number;
  #cancelNext = () => {};
  #sending: Promise<void> | null = null;
  #changedMeanwhile = false;
  #failures = 0;

  constructor(options: NodeReporterOptions) {
    this.#options = options;
    this.#environment = options.environment ?? systemEnvironment;
    this.#lifetime = new Lifetime(this.#environment);
    this.#intervalMs = options.intervalMs ?? DEFAULT_INTERVAL_MS;
  }

  start(): void {
    this.changed();
  }

  /** Schedules a report of a change. */
  changed(): void {
    if (this.#sending === null) this.#schedule(GATHER_MS);
    else this.#changedMeanwhile = true;
  }

  /** Sends a report without the usual delay: a request waits for it. */
  now(): void {
    if (this.#sending === null) this.#schedule(0);
    else this.#changedMeanwhile = true;
  }

  async close(): Promise<void> {
    this.#lifetime.end(new Error('the node is closing'));
    await this.#sending;
  }

  #schedule(delayMs: number): void {
    this.#cancelNext();
    if (this.#lifetime.ended) return;
    this.#cancelNext = this.#lifetime.after(delayMs, () => {
      this.#sending = this.#send().finally(() => {
        this.#sending = null;
        this.#schedule(this.#changedMeanwhile ? GATHER_MS : this.#nextInMs());
        this.#changedMeanwhile = false;
      });
    });
  }

  #nextInMs(): number {
    if (this.#failures === 0) return this.#intervalMs;
    const backoff = { firstMs: FIRST_RETRY_MS, maxMs: this.#intervalMs };
    return backoffMs(backoff, this.#failures, this.#environment);
  }

  async #send(): Promise<void> {
    const { target, collect, timeoutMs = DEFAULT_TIMEOUT_MS, onFailure = () => {}, answered } = this.#options;
    try {
      await this.#lifetime.during(async (call) => {
        const cancel = this.#lifetime.after(timeoutMs, () =>
          call.abort(new Error(`the report took longer than ${timeoutMs} ms`)),
        );
        try {
          const report = collect();
          const answer = await target.report(report, call.signal);
          this.#keepAlive(answer.expiresAfterMs);
          this.#failures = 0;
          if (answered?.(report, answer)) this.#changedMeanwhile = true;
        } finally {
          cancel();
        }
      });
    } catch (error) {
      this.#failures++;
      if (!this.#lifetime.ended) onFailure(error);
    }
  }

  #keepAlive(expiresAfterMs: number): void {
    const wanted = this.#options.intervalMs ?? DEFAULT_INTERVAL_MS;
    if (expiresAfterMs <= 0) return;
    this.#intervalMs = Math.min(wanted, Math.max(MIN_INTERVAL_MS, Math.floor(expiresAfterMs / REPORTS_PER_EXPIRY)));
  }
}

/** A tool of a server: its name and the sha256 of its definition, as a pin stores it. */
export interface ToolReport {
  readonly name: string;
  readonly definitionSha256: string;
}

/** The tools of one server. Addressed by its hash, so that the equal lists of many nodes are sent and stored once. */
export interface ToolListReport {
  readonly hash: string;
  /** Ordered by name. */
  readonly tools: readonly ToolReport[];
}

export function toolListReport(tools: readonly ToolReport[]): ToolListReport {
  const ordered = [...tools].sort((a, b) => (a.name < b.name ? -1 : 1));
  return { hash: toolListHash(ordered), tools: ordered };
}

export function toolListHash(tools: readonly ToolReport[]): string {
  const text = JSON.stringify(tools.map(({ name, definitionSha256 }) => [name, definitionSha256]));
  return createHash('sha256').update(text).digest('hex');
}

/** State of one run of a node. */
export interface RunReport
  extends Pick<
    RunRecord,
    | 'id'
    | 'namespace'
    | 'task'
    | 'revision'
    | 'status'
    | 'submitted_by'
    | 'submitted_at_ms'
    | 'started_at_ms'
    | 'ended_at_ms'
    | 'attempts'
    | 'exit'
    | 'status_reason'
    | 'degraded'
  > {
  /** Null: unknown. */
  readonly cost: { readonly model_calls: number; readonly tool_calls: number; readonly total_tokens: number } | null;
}

/** Timeline of a run as JSON of a `RunPicture`; null: `problem` says why there is none. */
export interface RunTimelineReport {
  readonly runId: string;
  readonly picture: string | null;
  readonly problem: string;
}

export interface RunsReport {
  readonly nodeId: string;
  /** Runs that are active, waiting or parked, and the last ones that ended; null: as in the previous report. */
  readonly runs: readonly RunReport[] | null;
  readonly timelines: readonly RunTimelineReport[];
}

export interface RunsAnswer {
  readonly wantedTimelines: readonly string[];
  /** The registry does not have the previous report. */
  readonly wantsRuns: boolean;
}

/** Limits of a report of runs, on both sides. */
export const runReportLimits = Object.freeze({
  /** Runs that have not ended. */
  maxActive: 400,
  maxEnded: 100,
  maxTimelines: 4,
  maxTimelineBytes: 1024 * 1024,
});

export interface RunReportTarget {
  reportRuns(report: RunsReport, signal: AbortSignal): Promise<RunsAnswer>;
}
