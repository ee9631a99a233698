import type { CompiledTelemetry } from '../config/telemetry.ts';
import { createMetrics, type Metrics } from '../server/telemetry/metrics.ts';
import { openPrometheusMeters, type PrometheusMeters } from '../server/telemetry/prometheus.ts';
import type { RunTracing } from '../server/telemetry/span.ts';
import { openTelemetry, type Telemetry } from '../server/telemetry/telemetry.ts';
import { parseTraceparent } from '../server/telemetry/trace-context.ts';

/** Traces and metrics of the runs of one task. */
export class TaskTelemetry {
  /** The caller's metrics, or those created for export; null: none. */
  readonly metrics: Metrics | null;
  readonly #config: CompiledTelemetry;
  readonly #telemetry: Telemetry;
  readonly #meters: PrometheusMeters | null;
  #isPushing = false;

  /** @throws ConfigError */
  constructor(config: CompiledTelemetry, service: string, given: Metrics | null, say: (text: string) => void) {
    this.#config = config;
    this.#telemetry = openTelemetry(config, service, say);
    const makes = given === null && config.metricsUrl !== null;
    this.#meters = makes ? openPrometheusMeters(Date.now() - process.uptime() * 1000) : null;
    this.metrics = this.#meters === null ? given : createMetrics(this.#meters.provider, this.#meters.collect);
  }

  /** Tracing of the next run. Starts the export of metrics, which a mere check does not need. */
  tracing(agent: string | null): RunTracing | null {
    if (!this.#isPushing && this.metrics?.collect) this.#telemetry.pushMetrics(this.metrics.collect);
    this.#isPushing = true;
    const { tracer } = this.#telemetry;
    return tracer && { tracer, parent: parseTraceparent(this.#config.parent), agent };
  }

  async close(): Promise<void> {
    await this.#telemetry.close();
    await this.#meters?.close();
  }
}
