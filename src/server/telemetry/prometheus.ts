import type { Meter, MeterProvider } from '@opentelemetry/api';
import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import { MeterProvider as SdkMeterProvider } from '@opentelemetry/sdk-metrics';
import type { CollectMetrics } from './metrics.ts';

export const PROMETHEUS_CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** How long callbacks of instruments have for their answer. */
const COLLECT_TIMEOUT_MS = 2_000;

/** A meter provider whose state can be read in the text format of Prometheus. */
export interface PrometheusMeters {
  readonly provider: MeterProvider;
  /** What the instruments say now. @throws if nothing could be collected in time */
  readonly collect: CollectMetrics;
  /** The same as text. @throws likewise */
  text(): Promise<string>;
  close(): Promise<void>;
}

export function openPrometheusMeters(startedAtMs: number): PrometheusMeters {
  // Serves nothing by itself: its server has neither deadlines nor bounds, so only its collecting is used.
  const reader = new PrometheusExporter({ preventServerStart: true });
  const provider = new SdkMeterProvider({ readers: [reader] });
  const withoutTarget = true;
  const withoutScope = true;
  const serializer = new PrometheusSerializer('', false, undefined, withoutTarget, withoutScope);
  processGauges(provider.getMeter('process'), startedAtMs);
  const collect = async () => {
    const { resourceMetrics, errors } = await reader.collect({ timeoutMillis: COLLECT_TIMEOUT_MS });
    if (errors.length > 0 && resourceMetrics.scopeMetrics.length === 0) throw errors[0];
    return resourceMetrics;
  };
  return {
    provider,
    collect,
    text: async () => serializer.serialize(await collect()),
    close: () => provider.shutdown(),
  };
}

function processGauges(meter: Meter, startedAtMs: number): void {
  const memory = meter.createObservableGauge('process_resident_memory_bytes', { description: 'Resident memory size.' });
  memory.addCallback((result) => result.observe(process.memoryUsage.rss()));
  const start = meter.createObservableGauge('process_start_time_seconds', {
    description: 'Start time since the Unix epoch.',
  });
  start.addCallback((result) => result.observe(startedAtMs / 1000));
}
