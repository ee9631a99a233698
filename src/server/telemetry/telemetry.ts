import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { version } from '../../base/version.ts';
import type { CompiledTelemetry } from '../../config/telemetry.ts';
import { MetricPush, SpanExport, SpanQueue } from './export.ts';
import type { CollectMetrics } from './metrics.ts';
import { openCollector, otlpEncoding } from './otlp.ts';
import type { Tracer } from './span.ts';

/** Deadline of the final export when the process ends. */
export const FLUSH_MS = 2_000;

/** Export of traces and metrics of this process: OTLP over HTTP. */
export interface Telemetry {
  /** Null: no traces are sent. */
  readonly tracer: Tracer | null;
  /** Exports these instruments from now on; does nothing if metrics are off. */
  pushMetrics(collect: CollectMetrics): void;
  /** Exports what is buffered, within {@link FLUSH_MS}. */
  close(): Promise<void>;
}

/**
 * Starts the export. `service` is the default service name. `say` is called once for a failing collector, and at the end with
 * the number of dropped spans.
 * @throws ConfigError for headers that cannot be read
 */
export function openTelemetry(config: CompiledTelemetry, service: string, say: (text: string) => void): Telemetry {
  const attributes = {
    'service.name': config.serviceName ?? service,
    'service.version': version,
    'service.instance.id': randomUUID(),
    'host.name': hostname(),
    ...config.resource,
    ...(config.serviceName === null ? {} : { 'service.name': config.serviceName }),
  };
  const encoding = otlpEncoding(config.protocol, attributes);
  const collector = openCollector(encoding.contentType, config.headers(), `spear/${version}`, config.timeoutMs);
  const { post } = collector;
  const said = new Set<string>();
  const troubleAt = (url: string) => (why: string) => {
    if (said.has(url)) return;
    said.add(url);
    say(`telemetry: export to ${new URL(url).origin} failed: ${why}`);
  };
  const { tracesUrl, metricsUrl } = config;
  let spans: SpanExport | null = null;
  const queue = tracesUrl && new SpanQueue(config.sampler, config.maxQueuedSpans, (waiting) => spans?.woken(waiting));
  if (tracesUrl !== null && queue) {
    const onTrouble = troubleAt(tracesUrl);
    spans = new SpanExport({ queue, encoding, url: tracesUrl, post, delayMs: config.spanDelayMs, onTrouble });
  }
  const pushes: MetricPush[] = [];
  const end = async () => {
    await Promise.all([spans?.close(FLUSH_MS), ...pushes.map((push) => push.close(FLUSH_MS))]);
    await collector.close();
    const dropped = (queue ? queue.dropped : 0) + (spans?.lost ?? 0);
    if (dropped > 0) say(`telemetry: ${dropped} spans dropped: the collector did not accept them in time`);
  };
  let closing: Promise<void> | null = null;
  return {
    tracer: queue || null,
    pushMetrics: (collect) => {
      if (metricsUrl === null || closing !== null) return;
      const onTrouble = troubleAt(metricsUrl);
      pushes.push(
        new MetricPush({ encoding, url: metricsUrl, post, intervalMs: config.metricIntervalMs, onTrouble }, collect),
      );
    },
    close: () => {
      closing ??= end();
      return closing;
    },
  };
}
