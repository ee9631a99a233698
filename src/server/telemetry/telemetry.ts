import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { version } from '../../base/version.ts';
import type { CompiledTelemetry } from '../../config/telemetry.ts';
import type { CollectMetrics } from './collected-metrics.ts';
import { MetricPush } from './metric-push.ts';
import { otlpEncoding } from './otlp-encoding.ts';
import { openCollector } from './otlp-post.ts';
import type { Tracer } from './span.ts';
import { SpanExport } from './span-export.ts';
import { SpanQueue } from './span-queue.ts';

/** What the end of a process waits for a collector. */
export const FLUSH_MS = 2_000;

/** Where traces and metrics of this process go: OTLP over HTTP. */
export interface Telemetry {
  /** Null: no traces are sent. */
  readonly tracer: Tracer | null;
  /** Sends what these instruments say from now on; nothing happens where no metrics are sent. */
  pushMetrics(collect: CollectMetrics): void;
  /** Sends what is left, within {@link FLUSH_MS}. */
  close(): Promise<void>;
}

/**
 * `service`: what this process is called where nothing else is said. `say` is told once of a collector that does not take
 * what it is sent, and at the end of what it never got.
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
