import { backoffMs } from '../base/timing.ts';
import { type RegistryEnvironment, systemEnvironment } from './environment.ts';
import { Lifetime } from './lifetime.ts';
import type { RunReportTarget } from './run-report.ts';
import type { ToolListReport } from './tool-list-report.ts';

export const reportedHealths = ['idle', 'connected', 'degraded', 'down'] as const;
export type ReportedHealth = (typeof reportedHealths)[number];

/** What a node knows of one server that it has used. */
export interface ServerReport {
  readonly serverId: string;
  readonly health: ReportedHealth;
  /** Without secrets: it is shown to whoever looks at the registry. */
  readonly lastError: string | null;
  readonly toolCount: number | null;
  readonly reconnects: number;
  /** How long it takes to answer a call, smoothed; left out where it has answered none. */
  readonly latencyMs?: number;
  /** Names its list of tools; left out where there is none, or not yet. */
  readonly toolsHash?: string;
}

/** What a process has under way. */
export interface ProcessLoad {
  readonly connections: number;
  readonly subprocesses: number;
  readonly callsInFlight: number;
  readonly callsQueued: number;
  readonly memoryBytes: number;
  /** Share of one core since the report before, in thousandths. */
  readonly cpuPermille: number;
  readonly upMs: number;
}

export const reportedStates = ['starting', 'ready', 'degraded', 'refused', 'stale'] as const;
export type ReportedState = (typeof reportedStates)[number];

/** What a node says of itself. Each report replaces the one before. */
export interface NodeReport {
  readonly nodeId: string;
  readonly registryState: ReportedState;
  readonly epoch: string;
  readonly snapshotRevision: number;
  readonly servers: readonly ServerReport[];
  /** Of its program. Nodes of earlier versions say nothing of these. */
  readonly version?: string;
  readonly load?: ProcessLoad;
  /** The stops that it applies. */
  readonly stopsEpoch?: string;
  readonly stopsRevision?: number;
  /** Lists that the registry is not known to have. */
  readonly toolLists?: readonly ToolListReport[];
}

export interface ReportAnswer {
  /** After this time without another report the registry forgets this one. */
  readonly expiresAfterMs: number;
  /** Lists of tools that the registry misses. @default none */
  readonly wantedToolLists?: readonly string[];
}

export interface ReportTarget extends RunReportTarget {
  report(report: NodeReport, signal: AbortSignal): Promise<ReportAnswer>;
}

export interface NodeReporterOptions {
  readonly target: Pick<ReportTarget, 'report'>;
  /** Asked at every report. */
  readonly collect: () => NodeReport;
  /** Between two reports at most; a registry that forgets sooner gets them sooner. @default 20 s */
  readonly intervalMs?: number;
  /** Deadline of one report. @default 5 s */
  readonly timeoutMs?: number;
  /** A report arrived. Whether there is more to tell, which then follows soon. @default no */
  readonly answered?: (report: NodeReport, answer: ReportAnswer) => boolean;
  /** A report that did not arrive is no reason to stop: the next one replaces it. @default nothing */
  readonly onFailure?: (error: unknown) => void;
  readonly environment?: RegistryEnvironment;
}

const DEFAULT_INTERVAL_MS = 20_000;
const DEFAULT_TIMEOUT_MS = 5_000;
const MIN_INTERVAL_MS = 1_000;
/** A report that did not arrive is tried again after this time, then after twice as long, up to the interval. */
const FIRST_RETRY_MS = 500;
/** A report comes at least this often within the time after which it would be forgotten. */
const REPORTS_PER_EXPIRY = 3;
/** Changes close to each other travel in one report. */
const GATHER_MS = 250;

/** Tells the registry what this node sees: at once when `changed` is called, and every so often. */
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
