import type { HistoryJson } from './console-api.ts';
import type { NodeReports } from './node-reports.ts';
import { healthCounts, meanLatencyMs, worstHealth } from './server-health.ts';

const EVERY_MS = 10_000;
/** One hour. */
const KEPT = 360;

interface Sample {
  readonly atMs: number;
  readonly processes: number;
  readonly connected: number;
  readonly failing: number;
  readonly callsInFlight: number;
  readonly latencyMs: number | null;
}

/** How the nodes were over the last hour, in memory alone. */
export class History {
  readonly #reports: NodeReports;
  readonly #samples: Sample[] = [];
  readonly #timer: NodeJS.Timeout;

  constructor(reports: NodeReports) {
    this.#reports = reports;
    this.#timer = setInterval(() => this.#take(), EVERY_MS).unref();
    this.#take();
  }

  /** With how it is now as its last. */
  json(): HistoryJson {
    const samples = [...this.#samples, this.#now()];
    return {
      every_ms: EVERY_MS,
      at_ms: samples.map(({ atMs }) => atMs),
      processes: samples.map(({ processes }) => processes),
      connected: samples.map(({ connected }) => connected),
      failing: samples.map(({ failing }) => failing),
      calls_in_flight: samples.map(({ callsInFlight }) => callsInFlight),
      latency_ms: samples.map(({ latencyMs }) => latencyMs),
    };
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #take(): void {
    this.#samples.push(this.#now());
    if (this.#samples.length > KEPT) this.#samples.shift();
  }

  #now(): Sample {
    const nodes = this.#reports.nodes();
    const servers = [...this.#reports.byServer().values()];
    const worst = servers.map((views) => worstHealth(healthCounts(views)));
    return {
      atMs: Date.now(),
      processes: nodes.length,
      connected: worst.filter((health) => health === 'connected').length,
      failing: worst.filter((health) => health === 'down' || health === 'degraded').length,
      callsInFlight: nodes.reduce((sum, { load }) => sum + (load?.callsInFlight ?? 0), 0),
      latencyMs: meanLatencyMs(nodes.flatMap((node) => node.servers)),
    };
  }
}
