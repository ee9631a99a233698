import type { QueueFacts } from '../server/queue/run-queue.ts';
import { createMetrics, type Metrics } from '../server/telemetry/metrics.ts';
import { openPrometheusMeters } from '../server/telemetry/prometheus.ts';

/** Values of the gauges, read when metrics are collected. */
export interface NodeFacts {
  readonly queue: QueueFacts;
  readonly slots: number;
  readonly running: number;
  readonly starts: number;
  /** Null: no TLS. */
  readonly certificateExpiresAtMs: number | null;
}

/** The instruments of a node. Label values come from fixed sets: routes, status codes, statuses of runs. */
export class NodeMetrics {
  readonly guests: Metrics;
  readonly requests;
  readonly shed;
  readonly #meters;

  constructor() {
    this.#meters = openPrometheusMeters(Date.now() - process.uptime() * 1000);
    this.guests = createMetrics(this.#meters.provider, this.#meters.collect);
    const meter = this.#meter();
    this.requests = meter.createCounter('spearlet_requests_total', {
      description: 'Finished requests by route and status code.',
    });
    this.shed = meter.createCounter('spearlet_shed_total', {
      description: 'Requests refused by a limit per caller or peer, by reason.',
    });
  }

  /** Adds the gauges, whose values `read` returns at each collection. */
  observe(read: () => NodeFacts): void {
    const meter = this.#meter();
    const gauge = (name: string, description: string) => meter.createObservableGauge(name, { description });
    const runs = gauge('spearlet_runs', 'Retained runs, by status.');
    const depth = gauge('spearlet_queue_depth', 'Queued runs.');
    const age = gauge('spearlet_queue_age_seconds', 'Age of the oldest queued run.');
    const slots = gauge('spearlet_slots', 'Run slots, by state.');
    const expiry = gauge(
      'spearlet_certificate_expiry_timestamp_seconds',
      'Time at which the TLS certificate expires, in seconds since the epoch.',
    );
    const starts = meter.createObservableCounter('spearlet_run_starts_total', {
      description: 'Started run attempts.',
    });
    meter.addBatchObservableCallback(
      (result) => {
        const { queue, slots: all, running, starts: begun, certificateExpiresAtMs: expires } = read();
        for (const [status, count] of Object.entries(queue.byStatus)) result.observe(runs, count, { status });
        result.observe(depth, queue.byStatus.queued);
        result.observe(age, (queue.oldestQueuedMs ?? 0) / 1000);
        result.observe(slots, running, { state: 'used' });
        result.observe(slots, Math.max(0, all - running), { state: 'free' });
        result.observe(starts, begun);
        if (expires !== null) result.observe(expiry, expires / 1000);
      },
      [runs, depth, age, slots, starts, expiry],
    );
  }

  #meter() {
    return this.#meters.provider.getMeter('spearlet');
  }

  text(): Promise<string> {
    return this.#meters.text();
  }

  close(): Promise<void> {
    return this.#meters.close();
  }
}
